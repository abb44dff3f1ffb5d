import type { ConvertedColumn } from './data-model.ts';

/** Columns with fewer different values may be lists of states, which a migration merges on purpose. */
const DIFFERENT = 10;

/** Tells if an UPDATE has emptied a column, or made different values the same. */
export function isOverwritten({ becameNull, distinctBefore, distinctAfter }: ConvertedColumn): boolean {
  return becameNull > 0 || (distinctBefore >= DIFFERENT && distinctAfter * 2 < distinctBefore);
}

/** Tells if values are known to be gone, or to be others. */
export function isReplaced({ becameNull, changed, distinctBefore, distinctAfter }: ConvertedColumn): boolean {
  return becameNull > 0 || (changed ?? 0) > 0 || distinctAfter < distinctBefore;
}

/** Tells if a change of type has lost values: they are NULL or cut, or what differed in more than its spelling is the same. */
export function losesValues({
  becameNull,
  cut = 0,
  spellings,
  distinctBefore,
  distinctAfter,
}: ConvertedColumn): boolean {
  if (becameNull > 0 || cut > 0) return true;
  // A sample of either side without a primary key has not the same rows.
  return spellings === undefined ? distinctAfter * 2 < distinctBefore : distinctAfter < spellings;
}
