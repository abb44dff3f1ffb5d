import { IS_TABLE, QUALIFIED_NAME, RELATIONS_AND_SCHEMAS } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { displayName, identifier } from '../postgres/sql/quote.ts';
import type { CatalogueIdentity } from './identity.ts';
import { type Action, encodeId, type FactBase, type Plan, type StableId } from './pg-delta.ts';

/** Tells which tables hold rows now, under the names of before. A table that is not there holds none. */
export type HasRows = (table: TableName) => boolean;

export interface TableName {
  readonly schema: string;
  readonly name: string;
}

/**
 * Corrects the statements of a plan: a default of a new type is set once the column has that type, and publications name one table
 * each, as pg_dump does. pg-delta leaves out ONLY, and so adds the tables that inherit from it, too.
 */
export function inRunnableOrder(actions: readonly Action[]): Action[] {
  return defaultsAfterTypes(actions).map((action) => ({ ...action, sql: onlyInPublication(action.sql) }));
}

const SET_DEFAULT = /^(ALTER TABLE .+ ALTER COLUMN .+ )SET DEFAULT /s;

function defaultsAfterTypes(actions: readonly Action[]): Action[] {
  const retyped = new Set(
    actions.flatMap(({ sql }) => /^(ALTER TABLE .+ ALTER COLUMN .+ )TYPE /s.exec(sql)?.[1] ?? []),
  );
  const early = new Map<string, Action>();
  for (const action of actions) {
    const column = SET_DEFAULT.exec(action.sql)?.[1];
    if (column !== undefined && retyped.has(column)) early.set(column, action);
  }
  return actions.flatMap((action) => {
    if (retyped.has(SET_DEFAULT.exec(action.sql)?.[1] ?? '')) return [];
    const column = /^(ALTER TABLE .+ ALTER COLUMN .+ )TYPE /s.exec(action.sql)?.[1];
    const setting = column === undefined ? undefined : early.get(column);
    return setting ? [action, setting] : [action];
  });
}

const NAME = '"(?:[^"]|"")+"';

function onlyInPublication(sql: string): string {
  if (!/^(?:CREATE|ALTER) PUBLICATION /.test(sql)) return sql;
  return sql.replace(
    new RegExp(`(?<=^(?:CREATE PUBLICATION ${NAME} FOR|ALTER PUBLICATION ${NAME} (?:ADD|DROP)) TABLE )(?=")`),
    'ONLY ',
  );
}

/**
 * Makes a way back runnable on the rows that are there now: a column that must not be null comes back without that rule if its
 * table has rows, and a foreign key onto a table that lost its rows as NOT VALID.
 * @param before the schema to which the plan leads.
 * @returns `leftOut`: the parts that the statements leave out because of the rows, in sentences.
 */
export function fitToRows(
  { actions }: Plan,
  before: FactBase,
  hasRows: HasRows,
): { actions: Action[]; leftOut: string[] } {
  const leftOut: string[] = [];
  const unfilled = new Set<string>();
  const fitted = actions.flatMap((action): Action[] => {
    const [made] = action.produces;
    if (
      made?.kind === 'column' &&
      isUnfillable(action.sql) &&
      hasRows({ schema: made.schema, name: made.table })
    ) {
      unfilled.add(encodeId(made));
      const column = displayName(made.schema, made.table, made.name);
      leftOut.push(
        `NOT NULL of ${column}: its values are gone, so it can only be set once the column is filled`,
      );
      return [{ ...action, sql: action.sql.replace(/ NOT NULL(?= |$)/, '') }];
    }
    if (made?.kind !== 'constraint') return [action];
    const name = `${displayName(made.schema, made.table, made.name)}`;
    if (/ PRIMARY KEY /.test(action.sql) && refersTo(before, made).some((id) => unfilled.has(encodeId(id)))) {
      leftOut.push(`the primary key ${name}: it can only be added once its columns are filled`);
      return [];
    }
    if (!lacksRows(made, action.sql, before, hasRows)) return [action];
    leftOut.push(
      `the check of the rows by ${name}: the rows that they refer to are gone, so it is added NOT VALID`,
    );
    return [{ ...action, sql: `${action.sql} NOT VALID` }];
  });
  return { actions: fitted, leftOut };
}

type Part = Extract<StableId, { table: string; schema: string; name: string }>;

function isUnfillable(sql: string): boolean {
  return / NOT NULL(?= |$)/.test(sql) && !/ (?:DEFAULT|GENERATED) /.test(sql) && / ADD COLUMN /.test(sql);
}

function refersTo(before: FactBase, id: StableId): StableId[] {
  return before.outgoingEdges(id).map(({ to }) => to);
}

/** Tells if a foreign key is added to a table with rows that refers to one without; not of a partitioned table, where it must be valid. */
function lacksRows(made: Part, sql: string, before: FactBase, hasRows: HasRows): boolean {
  if (!/ FOREIGN KEY /.test(sql) || / NOT VALID$/.test(sql)) return false;
  const own = { schema: made.schema, name: made.table };
  if (!hasRows(own) || before.get({ kind: 'table', ...own })?.payload.partitionKey != null) return false;
  const others = new Map(
    refersTo(before, made).flatMap((id) => {
      const table = tableOf(id);
      return table ? [[quoted(table), table] as const] : [];
    }),
  );
  others.delete(quoted(own));
  return [...others.values()].some((table) => !hasRows(table));
}

function tableOf(id: StableId): TableName | undefined {
  if (id.kind === 'table') return { schema: id.schema, name: id.name };
  return 'table' in id && 'schema' in id ? { schema: id.schema, name: id.table } : undefined;
}

export const quoted = ({ schema, name }: TableName) => `${identifier(schema)}.${identifier(name)}`;

const READABLE = `select c.oid::pg_catalog.text as oid, ${QUALIFIED_NAME} as name
  from ${RELATIONS_AND_SCHEMAS}
  where c.oid = any ($1::pg_catalog.oid[]) and ${IS_TABLE} and not pg_catalog.row_security_active(c.oid)
    and pg_catalog.has_table_privilege(c.oid, 'SELECT') and pg_catalog.has_schema_privilege(n.oid, 'USAGE')`;

/**
 * Asks which tables have rows, if a way back depends on it. Tables that the role cannot read count as filled.
 * @param session null: the database is not to be asked, and all its tables count as filled.
 * @param now under the names of before; the session has the names of now.
 */
export async function tablesWithRows(
  session: Session | null,
  back: Plan,
  before: FactBase,
  now: CatalogueIdentity,
): Promise<HasRows> {
  const keys = keysByName(now);
  const keyOf = ({ schema, name }: TableName) => keys.get(JSON.stringify([schema, name]));
  const asked = new Set<string>();
  fitToRows(back, before, (table) => {
    const key = keyOf(table);
    if (key !== undefined) asked.add(key);
    return true;
  });
  const empty = session && asked.size > 0 ? await emptyAmong(session, asked) : new Set<string>();
  return (table) => {
    const key = keyOf(table);
    return key !== undefined && !empty.has(key);
  };
}

function keysByName(now: CatalogueIdentity): Map<string, string> {
  const keys = new Map<string, string>();
  for (const { key, kind, name, within } of now.values())
    if (kind === 'table') keys.set(JSON.stringify([now.get(within ?? '')?.name, name]), key);
  return keys;
}

async function emptyAmong(session: Session, keys: ReadonlySet<string>): Promise<Set<string>> {
  const oids = [...keys].map((key) => key.slice(key.indexOf(':') + 1));
  const empty = new Set<string>();
  for (const { oid, name } of await session.query<{ oid: string; name: string }>(READABLE, [oids])) {
    const [found] = await session.query<{ filled: boolean }>(`select exists (select from ${name}) as filled`);
    if (found?.filled === false) empty.add(`pg_class:${oid}`);
  }
  return empty;
}
