import { formatCount, listed } from '../format.ts';
import { isOverwritten } from '../model/converted-column.ts';
import { isBookkeeping } from '../model/migration-tables.ts';
import type { Caveat, ConvertedColumn, DataSection, SchemaSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { ifAnswered } from '../postgres/session-helpers.ts';
import { displayName } from '../postgres/sql/quote.ts';
import { compareColumns, SAME_TEXT } from './converted-values.ts';
import { isJson, lostKeys } from './lost-keys.ts';
import { type ComparedTable, readTables, SAMPLED_PAGES } from './row-values.ts';
import { changingTriggers, type NamedInUpdates } from './unnamed-columns.ts';

/** Enough for some hundred tables. */
const BUDGET_MS = 5000;

/** Each UPDATE may set such a column to its own time, by a trigger. */
const OF_TIME = /^(?:timestamp|date|time)/;

/** Reasons why updated rows are not among the compared ones. */
const NO_KEY = 'which takes the same primary key before and after the command';
const HIDDEN = 'since the role may not read all rows of the target';
const UNANSWERED = 'since the time for it was over';
const FEW = `since fewer than one row in ${SAMPLED_PAGES} was updated, and the rows of ${SAMPLED_PAGES} pages are compared`;

/** A table with rows that the command updated. */
interface UpdatedTable {
  readonly relation: string;
  /** Its name before the command. */
  readonly former: string;
  readonly updated: number;
}

/**
 * Tables with rows from before the command and updates by it, most updates first. Rewritten ones are left out, since they are compared
 * whole, and those that are empty now.
 */
export function updatedTables(
  { tables, written }: DataSection,
  schema: SchemaSection | null,
): UpdatedTable[] {
  const others = tables.filter(
    ({ rewritten, bytesBefore, rowsAfter }) => rewritten || bytesBefore === 0 || rowsAfter === 0,
  );
  const leftOut = new Set(others.map(({ relation }) => relation));
  const renamed = schema?.renames.filter(({ kind }) => kind === 'table') ?? [];
  const former = new Map(renamed.map(({ from, to }) => [to, from]));
  return written
    .filter(({ relation, updated }) => updated > 0 && !leftOut.has(relation) && !isBookkeeping(relation))
    .toSorted((one, other) => other.updated - one.updated)
    .map(({ relation, updated }) => ({ relation, former: former.get(relation) ?? relation, updated }));
}

/** The sessions, and lists for notes about the work. */
interface Work {
  readonly target: Session;
  readonly clone: Session;
  /** The id of the target's next transaction before the clone was made. */
  readonly since: number | undefined;
  /** null: not known. */
  readonly named: NamedInUpdates | null;
  readonly schema: SchemaSection | null;
  /** Gets words for the rows that were read on the target. */
  readonly touched: string[];
  /** Gets the tables whose updated rows were not compared. */
  readonly caveats: Caveat[];
}

/** Compares rows of some pages of the target with those of the clone, by primary key. */
export async function compareUpdated(
  tables: readonly UpdatedTable[],
  { target, clone, since, named, schema, touched, caveats }: Work,
): Promise<ConvertedColumn[]> {
  const deadline = performance.now() + BUDGET_MS;
  for (const session of [target, clone]) await session.query(SAME_TEXT);
  const then = await readTables(
    target,
    tables.map(({ former }) => former),
  );
  const now = await readTables(
    clone,
    tables.map(({ relation }) => relation),
  );
  const found: ConvertedColumn[] = [];
  const missed = new Map<string, string[]>();
  // Partitions are compared as one table.
  for (const { relation, former, updated } of oneOfEach(tables, then)) {
    const before = then.find((table) => table.relation === former);
    const after = now.find((table) => table.relation === relation);
    if (!before || !after) continue;
    const columns = comparable(before, after);
    if (columns.length === 0) continue;
    const isReadable = hasKey(before, after) && before.readable && performance.now() < deadline;
    const compared = isReadable
      ? await ifAnswered(() =>
          compareColumns({ target, clone, before, after, columns, since, converted: false }, false),
        )
      : undefined;
    const reason = missing(before, after, compared, updated);
    if (reason !== null) missed.set(reason, [...(missed.get(reason) ?? []), rootOf(before)]);
    if (!isReadable) continue;
    touched.push(
      `compared ${formatCount(compared?.[0]?.compared ?? 0)} rows of ${rootOf(before)} with the clone's`,
    );
    const exact = isWhole(before);
    const sides = { target, clone, before, after, since };
    const own = named?.hidden.has(relation) ? null : named;
    const told = await withCauses(compared ?? [], columns, sides, { named: own, schema, deadline });
    found.push(...told.map((column) => ({ ...column, exact })));
  }
  for (const [reason, names] of missed)
    caveats.push({
      path: 'data.overwritten',
      kind: 'unmeasured',
      reason: `updated rows of ${listed(names)} are not compared with those of the target, ${reason}: values that are lost there are not reported`,
    });
  return found;
}

/** One entry for each table or table of partitions, with all rows that were updated. */
function oneOfEach(tables: readonly UpdatedTable[], read: readonly ComparedTable[]): UpdatedTable[] {
  const rootsOf = new Map(read.map((table) => [table.relation, rootOf(table)]));
  const found = new Map<string, UpdatedTable>();
  for (const table of tables) {
    const root = rootsOf.get(table.former) ?? table.former;
    const known = found.get(root);
    found.set(root, known ? { ...known, updated: known.updated + table.updated } : table);
  }
  return [...found.values()];
}

function rootOf({ schema, name }: ComparedTable): string {
  return displayName(schema, name);
}

/** Returns why the updated rows are not among the compared ones; null: they are. */
function missing(
  before: ComparedTable,
  after: ComparedTable,
  compared: readonly ConvertedColumn[] | undefined,
  updated: number,
): string | null {
  if (!hasKey(before, after)) return NO_KEY;
  if (!before.readable) return HIDDEN;
  if (!compared) return UNANSWERED;
  const isSeen = compared.some(({ becameNull, changed }) => becameNull > 0 || (changed ?? 0) > 0);
  const isFew = before.rows === null || updated * SAMPLED_PAGES < before.rows;
  return isFew && !isSeen && !isWhole(before) ? FEW : null;
}

/** Its pages are no more than a sample has. */
function isWhole({ pages }: ComparedTable): boolean {
  return pages <= SAMPLED_PAGES;
}

function comparable(before: ComparedTable, after: ComparedTable) {
  return Object.entries(before.types ?? {}).flatMap(([name, from]) => {
    const to = after.types?.[name];
    return to === undefined || before.key.includes(name) ? [] : [{ before: name, after: name, from, to }];
  });
}

function hasKey(before: ComparedTable, after: ComparedTable): boolean {
  return before.key.length > 0 && before.key.every((column) => after.key.includes(column));
}

interface Named {
  readonly before: string;
  readonly after: string;
  readonly from: string;
  readonly to: string;
}

/** Keeps the columns that lost values, and adds lost keys of JSON, and the triggers that changed a column which no statement names. */
async function withCauses(
  compared: readonly ConvertedColumn[],
  columns: readonly Named[],
  sides: Parameters<typeof lostKeys>[0],
  { named, schema, deadline }: Pick<Work, 'named' | 'schema'> & { readonly deadline: number },
): Promise<ConvertedColumn[]> {
  const all = compared.flatMap((column, at) => {
    const own = columns[at];
    return own ? [{ column, ...own }] : [];
  });
  const changed = all.filter(({ column }) => (column.changed ?? 0) > 0);
  const objects = changed.filter(
    ({ from, to, before, after }) => isJson(from) && isJson(to) && before === after,
  );
  const unnamed = changed.filter(
    ({ column, from, before, after }) =>
      named !== null &&
      [sides.before.name, sides.after.name].some((name) => named.tables.has(name)) &&
      ![before, after].some((name) => named.columns.has(name)) &&
      (OF_TIME.test(from) || column.distinctAfter === 1),
  );
  const ask = <T>(isAsked: boolean, query: () => Promise<T[]>) =>
    isAsked && performance.now() < deadline ? ifAnswered(query) : undefined;
  const keys = await ask(objects.length > 0, () =>
    lostKeys(
      sides,
      objects.map(({ before }) => before),
    ),
  );
  const triggers = await ask(unnamed.length > 0, () =>
    changingTriggers(sides.target, sides.before, schema?.changes ?? []),
  );
  return all.flatMap((each): ConvertedColumn[] => {
    const { column, from } = each;
    const keysLost = keys?.[objects.indexOf(each)] ?? 0;
    const by = unnamed.includes(each) ? (triggers ?? []) : [];
    if (!counts(column, from) && keysLost === 0 && by.length === 0) return [];
    return [{ ...column, ...(keysLost > 0 ? { keysLost } : {}), ...(by.length > 0 ? { triggers: by } : {}) }];
  });
}

function counts(column: ConvertedColumn, type: string): boolean {
  return isOverwritten(column) && (column.becameNull > 0 || !OF_TIME.test(type));
}
