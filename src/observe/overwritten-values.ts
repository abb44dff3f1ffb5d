import { formatCount } from '../format.ts';
import { isOverwritten } from '../model/converted-column.ts';
import { isBookkeeping } from '../model/migration-tables.ts';
import type { ConvertedColumn, DataSection } from '../model/report.ts';
import type { Session } from '../postgres/connection/session.ts';
import { ifAnswered } from '../postgres/session-helpers.ts';
import { compareColumns, SAME_TEXT } from './converted-values.ts';
import { type ComparedTable, readTables, SAMPLED_PAGES } from './row-values.ts';

/** Enough for some hundred tables. */
const BUDGET_MS = 5000;

/** Each UPDATE may set such a column to its own time, by a trigger. */
const OF_TIME = /^(?:timestamp|date|time)/;

/** Tables of which the command updated rows, most rows first, and which it did not rewrite: those are compared whole. */
export function updatedTables({ tables, written }: DataSection): string[] {
  const rewritten = new Set(tables.flatMap((table) => (table.rewritten ? [table.relation] : [])));
  return written
    .filter(({ relation, updated }) => updated > 0 && !rewritten.has(relation) && !isBookkeeping(relation))
    .toSorted((one, other) => other.updated - one.updated)
    .map(({ relation }) => relation);
}

/**
 * Compares rows of some pages of the target with those of the clone, by primary key. Tables without one, and those that the command
 * renamed, are left out.
 * @param touched gets words for the rows that were read on the target. `since`: the id of the target's next transaction before the clone was made.
 */
export async function compareUpdated(
  target: Session,
  clone: Session,
  relations: readonly string[],
  { touched, since }: { readonly touched: string[]; readonly since: number | undefined },
): Promise<ConvertedColumn[]> {
  const deadline = performance.now() + BUDGET_MS;
  for (const session of [target, clone]) await session.query(SAME_TEXT);
  const read = await readTables(target, relations);
  const then = relations.flatMap((relation) => read.find((table) => table.relation === relation) ?? []);
  const now = await readTables(clone, relations);
  const found: ConvertedColumn[] = [];
  const seen = new Set<string>();
  for (const before of then) {
    const id = JSON.stringify([before.schema, before.name]);
    const after = now.find(({ schema, name }) => schema === before.schema && name === before.name);
    if (!after || seen.has(id) || performance.now() > deadline) continue;
    seen.add(id);
    const columns = comparable(before, after);
    if (columns.length === 0 || !before.readable || !hasKey(before, after)) continue;
    const compared = await ifAnswered(() =>
      compareColumns({ target, clone, before, after, columns, since }, false),
    );
    touched.push(
      `compared ${formatCount(compared?.[0]?.compared ?? 0)} rows of ${before.relation} with the clone's`,
    );
    const exact = before.pages <= SAMPLED_PAGES;
    for (const [at, column] of (compared ?? []).entries())
      if (counts(column, columns[at]?.from ?? '')) found.push({ ...column, exact });
  }
  return found;
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

function counts(column: ConvertedColumn, type: string): boolean {
  return isOverwritten(column) && (column.becameNull > 0 || !OF_TIME.test(type));
}
