import type { Session } from '../../postgres/connection/session.ts';
import { displayName, identifier, literal } from '../../postgres/sql/quote.ts';
import type { Reversible } from './former-names.ts';
import type { CatalogueColumn, CatalogueTable } from './online-catalogue.ts';
import type { OnlineObjection, OnlineTable } from './online-plan.ts';
import { convertsAsText } from './safe-conversions.ts';

/** The same table in both databases. */
export interface TablePair {
  readonly target: CatalogueTable;
  readonly clone: CatalogueTable;
  readonly versionNum: number;
  /** A statement of the command converts values by an expression: ALTER COLUMN … TYPE … USING. */
  readonly convertsByExpression: boolean;
}

export interface Followed {
  readonly table: OnlineTable;
  readonly steps: readonly Reversible[];
  readonly objections: readonly OnlineObjection[];
}

export const OFFLINE = 'swap it without --online, or apply the migration in place (safemigrate apply)';
/** Since this version a publication lists columns. */
export const COLUMN_LISTS_SINCE = 150_000;

export const qualified = ({ schema, name }: { readonly schema: string; readonly name: string }) =>
  `${identifier(schema)}.${identifier(name)}`;
export const shown = ({ schema, name }: { readonly schema: string; readonly name: string }) =>
  displayName(schema, name);

/** Decides how the clone follows one table. @param session in the clone, to read values that no catalogue has. */
export async function followTable(pair: TablePair, session: Session): Promise<Followed> {
  const { target, clone } = pair;
  const known = new Set(target.columns.map(({ attnum }) => attnum));
  const added = clone.columns.filter(({ attnum }) => !known.has(attnum));
  const steps: Reversible[] = [];
  const objections = [...columnObjections(pair), ...keyObjections(pair, added)];
  for (const column of added) {
    const { value, objection } = await valueOfOldRows(pair, column, session);
    if (objection !== undefined) objections.push(about(clone, column.name, 'computed default', objection));
    else if (value !== undefined) steps.push(temporaryDefault(clone, column, value));
  }
  for (const { name, enabled } of clone.triggers) steps.push(withoutTrigger(clone, name, enabled));
  return { table: tableOf(pair, 'clone'), steps, objections };
}

/** Describes how one database follows a table of another. @param migrated the one by whose types values are compared. */
export function tableOf(
  { target, clone }: Pick<TablePair, 'target' | 'clone'>,
  migrated: 'target' | 'clone',
): OnlineTable {
  const published = target.columns.filter(({ generated }) => generated === '');
  const columns = published.flatMap((column) => {
    const there = clone.columns.find(({ attnum }) => attnum === column.attnum);
    return there ? [{ column, there }] : [];
  });
  return {
    oid: target.oid,
    inTarget: qualified(target),
    inClone: qualified(clone),
    columns: columns.map(({ column, there }) => ({
      attnum: column.attnum,
      inTarget: column.name,
      inClone: there.name,
      targetType: column.type.written,
      cloneType: there.type.written,
      comparedBy: (migrated === 'clone' ? there : column).type.written,
    })),
    key: (target.key ?? []).flatMap((at) => published.find(({ attnum }) => attnum === at)?.name ?? []),
    listsColumns: columns.length < published.length,
    insertsOnly: isInsertsOnly(target),
  };
}

export function isInsertsOnly({ identity, key }: CatalogueTable): boolean {
  return identity === 'n' || (identity !== 'f' && key === null);
}

export function about(
  table: CatalogueTable,
  column: string | null,
  kind: OnlineObjection['kind'],
  reason: string,
  remedy: string = OFFLINE,
): OnlineObjection {
  const subject = column === null ? shown(table) : displayName(table.schema, table.name, column);
  return { kind, subject, reason, remedy };
}

function columnObjections({ target, clone, ...pair }: TablePair): OnlineObjection[] {
  return target.columns.flatMap((column): OnlineObjection[] => {
    const there = clone.columns.find(({ attnum }) => attnum === column.attnum);
    if (!there) return droppedColumn({ target, clone, ...pair }, column);
    if ((column.generated === '') !== (there.generated === ''))
      return [about(target, column.name, 'generated column', 'it is generated in one of the databases only')];
    if (column.generated !== '') return [];
    const why = unsafeConversion(column, there, target.file !== clone.file, pair.convertsByExpression);
    return why === undefined ? [] : [about(target, column.name, 'conversion', why)];
  });
}

function droppedColumn({ target, versionNum }: TablePair, column: CatalogueColumn): OnlineObjection[] {
  if (column.generated !== '') return [];
  if (target.key?.includes(column.attnum))
    return [about(target, column.name, 'key', 'it is dropped, and identifies the rows of the target')];
  if (versionNum >= COLUMN_LISTS_SINCE) return [];
  const reason = 'it is dropped, and PostgreSQL 14 cannot leave a column out of a publication';
  return [about(target, column.name, 'dropped column', reason)];
}

/** Says why rows of the catch-up could get other values in a column than those that the command converted. */
function unsafeConversion(
  from: CatalogueColumn,
  to: CatalogueColumn,
  rewritten: boolean,
  byExpression: boolean,
): string | undefined {
  const change = `${from.type.written} to ${to.type.written}`;
  const isSame = from.type.oid === to.type.oid && from.type.modifier === to.type.modifier;
  if (!isSame && !convertsAsText(from.type, to.type))
    return from.type.name === 'timestamp' && to.type.name === 'timestamptz'
      ? `${change} depends on the time zone of each session`
      : `${change}: replication sends text, which may give other values than the conversion of the command`;
  if (!isSame && byExpression)
    return `${change} may use an expression (USING), which replicated rows do not go through`;
  if (isSame && from.type.attributes !== to.type.attributes) return `its type ${to.type.written} was altered`;
  if (isSame && rewritten && from.version !== to.version && from.state === to.state)
    return 'the table was rewritten and the column altered to its own type: its values may come from an expression (USING)';
  return undefined;
}

/** Says why rows of the target cannot be found in the clone. @param added columns that only the clone has. */
export function keyObjections(
  { target, clone }: Pick<TablePair, 'target' | 'clone'>,
  added: readonly CatalogueColumn[],
): OnlineObjection[] {
  const { identity, key } = target;
  const identified = `ALTER TABLE ${qualified(target)} REPLICA IDENTITY FULL; or a primary key`;
  if (isInsertsOnly(target)) {
    const reason = 'rows are updated or deleted, and it has no replica identity';
    return target.writes.changed > 0 ? [about(target, null, 'key', reason, identified)] : [];
  }
  if (identity === 'f') {
    const isSame =
      added.length === 0 &&
      target.columns.every(({ attnum, type }) =>
        clone.columns.some((column) => column.attnum === attnum && column.type.oid === type.oid),
      );
    const reason = 'all its columns identify a row (REPLICA IDENTITY FULL), and the command changes them';
    return isSame ? [] : [about(target, null, 'key', reason)];
  }
  const generated = target.columns.some((column) => key?.includes(column.attnum) && column.generated !== '');
  if (generated) return [about(target, null, 'key', 'a generated column identifies its rows', identified)];
  if (clone.key?.length && clone.key.every((attnum) => key?.includes(attnum))) return [];
  return [about(target, null, 'key', 'the command changes the columns that identify a row')];
}

const CONSTANT =
  /^\(?(?:'(?:[^']|'')*'|-?\d+(?:\.\d+)?|true|false)\)?(?:::[a-z][\w ."]*(?:\([\d,]+\))?(?:\[\])?)?$/;

/**
 * Finds the value that an added column has in the rows that are older than it, if the current default gives another one to rows of
 * the catch-up. @returns value null for NULL, undefined if nothing has to be done.
 */
async function valueOfOldRows(
  { target, clone }: TablePair,
  column: CatalogueColumn,
  session: Session,
): Promise<{ value?: string | null; objection?: string }> {
  if (column.generated !== '') return {};
  const computed = 'each row that exists gets a computed value of it, as no replicated row can';
  if (column.identity !== '') return clone.bytes > 0 ? { objection: computed } : {};
  if (column.missing !== null) {
    const same = await givesSame(column, column.missing, session);
    return same ? {} : { value: column.missing };
  }
  if (target.file === clone.file) return column.default === null ? {} : { value: null };
  if (clone.bytes === 0) return column.default === null ? {} : { objection: computed };
  const name = identifier(column.name);
  const from = `FROM ONLY ${qualified(clone)}`;
  const [found] = await session.query<{ value: string | null; same: boolean; rows: number }>(
    `SELECT f.value, (SELECT count(*)::int4 FROM (SELECT ${from} LIMIT 2) r) AS rows,
            NOT EXISTS (SELECT ${from} WHERE ${name}::text IS DISTINCT FROM f.value) AS same
       FROM (SELECT ${name}::text AS value ${from} LIMIT 1) f`,
  );
  if (!found) return column.default === null ? {} : { objection: computed };
  if (!found.same || (found.value !== null && found.rows < 2)) return { objection: computed };
  return { value: found.value };
}

async function givesSame({ default: sql }: CatalogueColumn, value: string, session: Session) {
  if (sql === null || !CONSTANT.test(sql)) return false;
  const [row] = await session.query<{ value: string | null }>(`SELECT (${sql})::text AS value`);
  return row?.value === value;
}

function temporaryDefault(
  table: CatalogueTable,
  { name, type, ownDefault }: CatalogueColumn,
  value: string | null,
): Reversible {
  const alter = `ALTER TABLE ONLY ${qualified(table)} ALTER COLUMN ${identifier(name)}`;
  const written = value === null ? 'NULL' : `${literal(value)}::${type.written}`;
  return {
    forward: `${alter} SET DEFAULT ${written}`,
    back: ownDefault === null ? `${alter} DROP DEFAULT` : `${alter} SET DEFAULT ${ownDefault}`,
  };
}

function withoutTrigger(table: CatalogueTable, name: string, enabled: 'A' | 'R'): Reversible {
  const alter = `ALTER TABLE ONLY ${qualified(table)}`;
  return {
    forward: `${alter} DISABLE TRIGGER ${identifier(name)}`,
    back: `${alter} ENABLE ${enabled === 'A' ? 'ALWAYS' : 'REPLICA'} TRIGGER ${identifier(name)}`,
  };
}
