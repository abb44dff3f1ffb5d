import { displayName } from '../../postgres/sql/quote.ts';

/** Returns `orders` for `public.orders`, quoted as it is shown. */
export function lastPart(qualified: string): string {
  if (!qualified.includes('"')) return qualified.slice(qualified.lastIndexOf('.') + 1) || qualified;
  return /(?:"(?:[^"]|"")*"|[^."]+)$/.exec(qualified)?.[0] ?? qualified;
}

/** Returns `public.orders` for `public.orders.email`. */
export function withoutLastPart(qualified: string): string {
  return qualified.slice(0, Math.max(0, qualified.length - lastPart(qualified).length - 1));
}

/** Returns the last part without quotes, to build other names from it. */
export function bare(relation: string): string {
  return lastPart(relation).replace(/^"(.*)"$/s, '$1');
}

/** Returns a name with a suffix in the same schema: `public.orders_new`. */
export function sibling(relation: string, suffix: string): string {
  const schema = withoutLastPart(relation);
  return `${schema === '' ? '' : `${schema}.`}${displayName(bare(relation) + suffix)}`;
}
