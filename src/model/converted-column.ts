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
