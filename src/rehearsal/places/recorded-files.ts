import path from 'node:path';
import type { StatementSection } from '../../model/report.ts';
import type { SentText } from '../../observe/statements.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { historyRecords } from '../../propose/formats/recorded-migration.ts';
import { HISTORY_TABLES } from './history-tables.ts';

/** Each migration is recorded right after it has run. */
const HISTORIES = HISTORY_TABLES.filter(({ isProgram }) => isProgram).map(
  ({ table, columns: [column = ''], within }) => ({ table, column, within }),
);
const TABLE = new RegExp(`\\b(?:${HISTORIES.map(({ table }) => table).join('|')})\\b`, 'i');

interface Recorded {
  readonly statement: StatementSection;
  readonly name: string;
  readonly app: string | undefined;
}

/**
 * Names the file of each statement by the records that the migration tool makes of its migrations: the first one after it, if
 * that is in its transaction, or the first of the whole command. Without a record, and unless exactly one file has the name, it
 * is not known.
 */
export async function recordedFiles(
  statements: readonly StatementSection[],
  sent: ReadonlyMap<number, SentText>,
  files: readonly string[],
): Promise<Map<number, string>> {
  const records = await recordsIn(statements, sent);
  const named = new Map<number, string>();
  if (records.length === 0) return named;
  for (const { index, session, transaction } of statements) {
    const [first] = records.filter(({ statement }) => statement.index > index);
    const own = records.find(({ statement }) => statement.index > index && statement.session === session);
    if (own === undefined || (own !== first && own.statement.transaction !== transaction)) continue;
    const file = fileOf(own, files);
    if (file !== undefined) named.set(index, file);
  }
  return named;
}

async function recordsIn(
  statements: readonly StatementSection[],
  sent: ReadonlyMap<number, SentText>,
): Promise<Recorded[]> {
  const writing = statements.filter(({ sql }) => TABLE.test(sql) && /^\s*(?:insert|update)\b/i.test(sql));
  // A record among them would be one of another migration.
  if (writing.some(({ repeated }) => repeated !== undefined)) return [];
  const found: Recorded[] = [];
  for (const statement of writing) {
    const [parsed] = (await parseText(Buffer.from(statement.sql))) ?? [];
    if (parsed === undefined || statement.error !== null) continue;
    const values = sent.get(statement.index)?.values ?? [];
    const records = HISTORIES.flatMap((history) => historyRecords(parsed.node, history, values));
    found.push(...records.map(({ name, app }) => ({ statement, name, app })));
  }
  return found;
}

/** Finds the one file of a name; TypeORM has the time of its class before the name of its file. */
function fileOf({ name, app }: Recorded, files: readonly string[]): string | undefined {
  const base = (file: string) => path.basename(file);
  const stem = (file: string) => base(file).slice(0, -path.extname(file).length);
  const id = /(?<!\d)\d{13}$/.exec(name)?.[0] ?? name;
  const words = new RegExp(`(?<![a-z0-9])${id.replaceAll(/[^a-z0-9]/gi, '\\$&')}(?![a-z0-9])`, 'i');
  const same = files.filter((file) => base(file) === name || stem(file) === name);
  const like = same.length > 0 ? same : files.filter((file) => words.test(stem(file)));
  const inApp = like.filter((file) => app !== undefined && file.split(path.sep).includes(app));
  const [only, ...more] = inApp.length > 0 ? inApp : like;
  return more.length === 0 ? only : undefined;
}
