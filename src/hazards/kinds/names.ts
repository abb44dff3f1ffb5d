import { displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';

/** Returns the last part without quotes, to build other names from it. */
export function bare(relation: string): string {
  return lastPart(relation).replace(/^"(.*)"$/s, '$1');
}

/** Returns a name with a suffix in the same schema: `public.orders_new`. */
export function sibling(relation: string, suffix: string): string {
  const schema = withoutLastPart(relation);
  return `${schema === '' ? '' : `${schema}.`}${displayName(bare(relation) + suffix)}`;
}
