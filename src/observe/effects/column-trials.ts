import { messageOf, sqlstateOf } from '../../errors.ts';
import type { ColumnTrial } from '../../model/effect-facts.ts';
import type { StatementSection } from '../../model/report.ts';
import { SearchPaths } from '../../model/search-paths.ts';
import type { Action } from '../../model/statement-actions.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { ifAnswered } from '../../postgres/session-helpers.ts';
import { type AlterCommand, alterCommands } from '../../postgres/sql/alter-commands.ts';
import { fieldsIf } from '../../postgres/sql/classify-statement.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { displayName, identifier, nameParts } from '../../postgres/sql/quote.ts';
import { isWord, slice, type Token, tokensOf } from '../../postgres/sql/tokens.ts';
import type { Retyped } from '../../schema/type-changes.ts';
import type { ParsedStatements } from './already-there.ts';
import type { MayRun } from './filtered-writes.ts';

// Which command of an ALTER TABLE gives the table a new file, and whether a stored column may be a virtual one: the server itself is
// asked, on an empty table like the one that was changed. The transaction is rolled back.

/** Statements that are tried at most. */
const MOST = 20;
const TRIAL = 'safemigrate_trial';

/** Commands that may rewrite the table, alone. */
const REWRITING = new Set<Action['does']>([
  'add column',
  'alter type',
  'set logged',
  'set unlogged',
  'set access method',
  'set tablespace',
]);

interface Asked extends ParsedStatements {
  readonly searchPath: readonly string[];
  readonly retyped: readonly Retyped[];
  readonly mayRun: MayRun;
}

/** Tells if the statement rewrote a table, and its actions do not show by which column, or whether that has to be stored. */
export function isTriedByColumns({ parsed }: ParsedStatements, statement: StatementSection): boolean {
  const { index, rewrote, error } = statement;
  if (rewrote.length === 0 || error !== null) return false;
  const actions = (parsed.get(index)?.actions ?? []).filter(({ does }) => REWRITING.has(does));
  return actions.length > 1 || actions.some((action) => action.does === 'add column' && action.stored);
}

export async function readColumnTrials(session: Session, asked: Asked): Promise<ColumnTrial[]> {
  const paths = new SearchPaths(asked.statements, asked.parsed, asked.searchPath);
  const statements = asked.statements.filter((statement) => isTriedByColumns(asked, statement));
  const trials: ColumnTrial[] = [];
  for (const statement of statements.slice(0, MOST)) {
    const [relation = ''] = statement.rewrote;
    if (!(await asked.mayRun(statement.sql))) continue;
    const commands = await commandsOf(statement.sql);
    const begin = [...beginning(paths.at(statement)), ...emptyTable(relation, commands, asked.retyped)];
    try {
      const isMade = await ifAnswered(() => session.queryAll(begin));
      if (isMade === undefined) continue;
      for (const command of commands)
        trials.push(await tried(session, { statement: statement.index, relation, command }));
    } finally {
      await session.query('ROLLBACK');
    }
  }
  return trials;
}

/** A command that adds a column or changes its type. */
interface ColumnCommand extends AlterCommand {
  readonly column: string;
  readonly does: 'add column' | 'alter type';
  /** With VIRTUAL in place of STORED; null: its column is not stored. */
  readonly virtualText: string | null;
}

async function commandsOf(sql: string): Promise<ColumnCommand[]> {
  const [parsed] = (await parseText(Buffer.from(sql))) ?? [];
  const tree = parsed && fieldsIf(parsed.node, 'AlterTableStmt');
  if (!tree) return [];
  const tokens = (await tokensOf(sql)).filter(({ text, depth }) => text !== ';' || depth > 0);
  return (alterCommands({ sql, tokens }, tree) ?? []).flatMap((command): ColumnCommand[] => {
    const { subtype, name = '', def } = command.fields;
    if (subtype === 'AT_AlterColumnType')
      return [{ ...command, column: name, does: 'alter type', virtualText: null }];
    if (subtype !== 'AT_AddColumn' || !def || !('ColumnDef' in def)) return [];
    const { colname: column = '' } = def.ColumnDef;
    return [{ ...command, column, does: 'add column', virtualText: withoutStored(sql, tokens, command) }];
  });
}

function withoutStored(sql: string, tokens: readonly Token[], { from, to }: AlterCommand): string | null {
  const stored = tokens.find((token) => token.from >= from && token.to <= to && isWord(token, 'STORED'));
  return stored ? `${slice(sql, from, stored.from)} VIRTUAL ${slice(sql, stored.to, to)}` : null;
}

const beginning = (path: readonly string[]) => [
  'BEGIN READ WRITE',
  "SET LOCAL statement_timeout = '5s'",
  "SET LOCAL lock_timeout = '100ms'",
  `SET LOCAL search_path = ${path.length === 0 ? "''" : path.map(identifier).join(', ')}`,
];

/** Makes a table with the columns that this one had before the statement. */
function emptyTable(
  relation: string,
  commands: readonly ColumnCommand[],
  retyped: readonly Retyped[],
): string[] {
  const trial = trialOf(relation);
  return [
    `CREATE TABLE ${trial} (LIKE ${quoted(relation)})`,
    ...commands.flatMap(({ does, column }) => {
      const name = identifier(column);
      if (does === 'add column') return [`ALTER TABLE ${trial} DROP COLUMN IF EXISTS ${name}`];
      const before = retyped.find(({ object }) => object === `${relation}.${displayName(column)}`);
      return before ? [`ALTER TABLE ${trial} ALTER COLUMN ${name} TYPE ${before.from} USING NULL`] : [];
    }),
  ];
}

async function tried(
  session: Session,
  { statement, relation, command }: { statement: number; relation: string; command: ColumnCommand },
): Promise<ColumnTrial> {
  const { column, text, virtualText } = command;
  const trial = trialOf(relation);
  const alter = (what: string) => `ALTER TABLE ${trial} ${what}`;
  const [before, after] = [await fileOf(session, trial), await undone(session, [alter(text)], trial)];
  // A command that fails alone may have done it.
  const rewrites = 'message' in after || after.file !== before;
  if (virtualText === null) return { statement, column, rewrites, storedFor: null };
  const added = await undone(session, [alter(virtualText)], trial);
  if ('message' in added) {
    const isUnknown = added.sqlstate === SYNTAX_ERROR;
    return { statement, column, rewrites, storedFor: [isUnknown ? NO_VIRTUAL : added.message] };
  }
  const storedFor: string[] = [];
  const dependents = await session.query<Dependent>(DEPENDENTS, [quoted(relation), column]);
  for (const { object, sql } of dependents) {
    if (sql === null) continue;
    const made = await undone(session, [alter(virtualText), sql.replace(PLACE, trial)], trial);
    if ('message' in made) storedFor.push(`${object}: ${made.message}`);
  }
  return { statement, column, rewrites, storedFor };
}

const SYNTAX_ERROR = '42601';
const NO_VIRTUAL = 'there are VIRTUAL columns from PostgreSQL 18 on';

interface Dependent {
  readonly object: string;
  /** Makes the same of the table at PLACE; null: a virtual column may have it. */
  readonly sql: string | null;
}

const PLACE = '<table>';

/** Lists the objects that depend on a column: indexes, foreign keys and statistics with the SQL for them, CHECK and NOT NULL without. */
const DEPENDENTS = `
with asked as (select a.attrelid, a.attnum from pg_catalog.pg_attribute a
  where a.attrelid = $1::pg_catalog.regclass and a.attname = $2 and not a.attisdropped)
select pg_catalog.pg_describe_object(d.classid, d.objid, 0) as object, coalesce(
  (select pg_catalog.concat('CREATE ', case when x.indisunique then 'UNIQUE ' end, 'INDEX ON ${PLACE}',
      pg_catalog.substr(t.def, pg_catalog.strpos(t.def, ' USING ')))
    from pg_catalog.pg_index x cross join lateral (select pg_catalog.pg_get_indexdef(x.indexrelid) as def) t
    where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and x.indexrelid = d.objid),
  (select pg_catalog.concat('ALTER TABLE ${PLACE} ADD ', pg_catalog.pg_get_constraintdef(k.oid))
    from pg_catalog.pg_constraint k
    where d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass and k.oid = d.objid and k.contype in ('f', 'p', 'u', 'x')),
  (select pg_catalog.concat('CREATE STATISTICS ${TRIAL}_statistics ON ', pg_catalog.pg_get_statisticsobjdef_columns(s.oid), ' FROM ${PLACE}')
    from pg_catalog.pg_statistic_ext s
    where d.classid = 'pg_catalog.pg_statistic_ext'::pg_catalog.regclass and s.oid = d.objid)) as sql
from asked join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
  and d.refobjid = asked.attrelid and d.refobjsubid = asked.attnum and d.objid <> asked.attrelid
where d.classid in ('pg_catalog.pg_class'::pg_catalog.regclass, 'pg_catalog.pg_constraint'::pg_catalog.regclass,
  'pg_catalog.pg_statistic_ext'::pg_catalog.regclass)
group by d.classid, d.objid`;

type Outcome = { readonly file: string | null } | { readonly sqlstate: string; readonly message: string };

/** Runs statements and takes them back. @returns the file that the table had after them, or why one failed */
async function undone(session: Session, statements: readonly string[], table: string): Promise<Outcome> {
  await session.query(`SAVEPOINT ${TRIAL}`);
  try {
    await session.queryAll(statements);
    return { file: await fileOf(session, table) };
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === undefined) throw error;
    return { sqlstate, message: messageOf(error) };
  } finally {
    await session.query(`ROLLBACK TO ${TRIAL}`);
  }
}

const FILE = 'SELECT pg_catalog.pg_relation_filenode($1::pg_catalog.regclass)::pg_catalog.text AS file';

async function fileOf(session: Session, table: string): Promise<string | null> {
  const [row] = await session.query<{ file: string | null }>(FILE, [table]);
  return row?.file ?? null;
}

const quoted = (relation: string) => nameParts(relation).map(identifier).join('.');
const trialOf = (relation: string) => `${identifier(nameParts(relation)[0] ?? '')}.${TRIAL}`;
