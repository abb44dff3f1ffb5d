import type { ConvertedColumn } from './data-model.ts';

/** So many different values are no list of states, some of which may be merged on purpose. */
const DIFFERENT = 10;

/** Tells if an UPDATE has emptied a column, or made different values the same. */
export function isOverwritten({ becameNull, distinctBefore, distinctAfter }: ConvertedColumn): boolean {
  return becameNull > 0 || (distinctBefore >= DIFFERENT && distinctAfter * 2 < distinctBefore);
}

/** Tells if values are known to be gone, or to be others. */
export function isReplaced({ becameNull, changed, distinctBefore, distinctAfter }: ConvertedColumn): boolean {
  return becameNull > 0 || (changed ?? 0) > 0 || distinctAfter < distinctBefore;
}
