import type { ConvertedColumn } from './data-model.ts';

/** Tells if values are known to be gone, or to be others. */
export function isReplaced({ becameNull, changed, distinctBefore, distinctAfter }: ConvertedColumn): boolean {
  return becameNull > 0 || (changed ?? 0) > 0 || distinctAfter < distinctBefore;
}
