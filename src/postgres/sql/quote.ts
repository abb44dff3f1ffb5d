/** Quotes an identifier, whatever it holds. Every identifier that enters SQL text goes through here. */
export function identifier(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

/**
 * Writes a string literal for the statements that take no parameters (ALTER DATABASE … SET, COMMENT).
 * Correct whatever standard_conforming_strings says: a backslash switches to the E'' form.
 */
export function literal(value: string): string {
  const quoted = value.replaceAll("'", "''");
  return quoted.includes('\\') ? ` E'${quoted.replaceAll('\\', '\\\\')}'` : `'${quoted}'`;
}

const PLAIN = /^[a-z_][a-z0-9_$]*$/;

/** Writes a qualified name for people, quoted only if it has to be, as PostgreSQL's own messages write it. */
export function displayName(...parts: string[]): string {
  return parts.map((part) => (PLAIN.test(part) ? part : identifier(part))).join('.');
}

/** Splits a qualified name as it is written or shown, into parts as the catalogues hold them. */
export function nameParts(name: string): string[] {
  const parts = name.match(/"(?:[^"]|"")*"|[^."]+/g) ?? [];
  return parts.map((part) =>
    part.startsWith('"') ? part.slice(1, -1).replaceAll('""', '"') : part.toLowerCase(),
  );
}

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
