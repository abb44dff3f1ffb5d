import type { UnappliedFile } from '../../model/effect-facts.ts';
import { USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { HISTORY_TABLES, type HistoryTable, type PlacedFile, type ReadSourceText } from './history-tables.ts';
import { readSource, sourceFiles } from './source-files.ts';

/** A history with more rows is not compared. */
const MOST_RECORDED = 10_000;

const TABLES = `
select n.nspname::pg_catalog.text as schema, c.relname::pg_catalog.text as name,
  pg_catalog.array_agg(a.attname::pg_catalog.text order by a.attnum) as columns
from pg_catalog.pg_class c
join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
where c.relkind = 'r' and c.relname = any ($1) and ${USER_SCHEMA}
group by 1, 2 order by 1, 2`;

interface Found {
  readonly schema: string;
  readonly name: string;
  readonly columns: readonly string[];
}

/**
 * Finds files of migrations that the history table of a tool does not have, although the command used that table. A folder is known to be
 * the tool's by the files in it that are recorded.
 * @param texts the statements of the command. @param folder its working folder. @param read reads in the clone.
 */
export async function unappliedFiles(
  texts: readonly string[],
  folder: string,
  read: <T>(use: (session: Session) => Promise<T>) => Promise<T>,
): Promise<UnappliedFile[]> {
  const used = HISTORY_TABLES.filter(
    ({ table, file }) => file !== undefined && texts.some((sql) => sql.includes(table)),
  );
  if (used.length === 0) return [];
  const files = (await sourceFiles(folder)).map((file) => file.replaceAll('\\', '/'));
  if (!files.some((file) => used.some((history) => history.file?.test(file)))) return [];
  const readText = (file: string) => readSource(folder, file);
  return read(async (session) => {
    const tables = await session.query<Found>(TABLES, [used.map(({ table }) => table)]);
    const found: UnappliedFile[] = [];
    for (const history of used) {
      const own = tables.filter((each) => isOf(history, each));
      const [first] = own;
      if (first === undefined) continue;
      const recorded = await readRecorded(session, history, own);
      const relation = displayName(first.schema, first.name);
      const missing = recorded && (await missingFrom(history, recorded, files, readText));
      found.push(...(missing ?? []).map((each) => ({ tool: history.tool, relation, ...each })));
    }
    return found;
  });
}

function isOf({ table, columns, isExact }: HistoryTable, found: Found): boolean {
  if (found.name !== table || !columns.every((column) => found.columns.includes(column))) return false;
  return !isExact || found.columns.length === columns.length;
}

/** Returns undefined if there are too many. A migration counts as recorded if one of several tables has it. */
async function readRecorded(
  session: Session,
  { columns: [column = ''], keyOf = (text) => text }: HistoryTable,
  tables: readonly Found[],
): Promise<ReadonlySet<string> | undefined> {
  const keys = new Set<string>();
  for (const { schema, name } of tables) {
    const rows = await session.query<{ key: string | null }>(
      `select ${displayName(column)}::pg_catalog.text as key from ${displayName(schema, name)} limit ${MOST_RECORDED + 1}`,
    );
    if (rows.length > MOST_RECORDED) return undefined;
    for (const { key } of rows) if (key !== null) keys.add(keyOf(key));
  }
  return keys;
}

type Missing = Pick<UnappliedFile, 'file' | 'why'>;
const { compare } = new Intl.Collator('en', { numeric: true });

/** Compares the folders that have files of recorded migrations. What is before the first of these was never meant to be applied. */
export async function missingFrom(
  history: HistoryTable,
  recorded: ReadonlySet<string>,
  files: readonly string[],
  readText: ReadSourceText,
): Promise<Missing[]> {
  const last = [...recorded].sort(compare).at(-1) ?? '';
  const named = files.flatMap((file): PlacedFile[] => {
    const match = history.file?.exec(file);
    const key = match?.[1];
    if (!match || key === undefined) return [];
    const isIgnored = history.takes !== undefined && !history.takes.test(file.replace(/^.*\//, ''));
    const isApplied = !isIgnored && (history.isLastOnly ? compare(key, last) <= 0 : recorded.has(key));
    const within = file.slice(0, match.index) + (match[0].startsWith('/') ? '/' : '');
    return [{ file, folder: within, key, order: key, isApplied, isIgnored }];
  });
  const placed = history.place ? await history.place(named, recorded, readText) : named;
  return [...new Set(placed.map((each) => each.folder))]
    .map((folder) => placed.filter((each) => each.folder === folder))
    .filter((own) => own.some(({ key }) => recorded.has(key)))
    .flatMap((own) => missingIn(own, history.sharesKeys === true));
}

function missingIn(files: readonly PlacedFile[], sharesKeys: boolean): Missing[] {
  const applied = files.filter(({ isApplied }) => isApplied).sort((a, b) => compare(a.order, b.order));
  const [first, last] = [applied[0], applied.at(-1)];
  if (!first || !last) return [];
  return files.flatMap(({ file, key, order, isApplied, isIgnored }): Missing[] => {
    if (isApplied) {
      const isShared = sharesKeys && applied.some((other) => other.key === key && other.file !== file);
      return isShared ? [{ file, why: 'same version' }] : [];
    }
    if (compare(order, first.order) < 0) return [];
    if (isIgnored) return [{ file, why: 'ignored' }];
    return [{ file, why: compare(order, last.order) < 0 ? 'passed over' : 'pending' }];
  });
}
