/** Types in the order in which each takes every value of those before it. */
const WIDENING: readonly (readonly string[])[] = [
  ['smallint', 'integer', 'bigint', 'numeric'],
  ['real', 'double precision'],
  ['character varying', 'text'],
  ['date', 'timestamp without time zone'],
];

/**
 * Whether values may come out shorter, rounded or normalised by a change of a column's type, so that the change back
 * does not restore them. Types as format_type writes them. Unknown pairs may lose.
 */
export function mayLose(from: string, to: string): boolean {
  const [old, wanted] = [parsed(from), parsed(to)];
  if (old.base === wanted.base) return !sameOrWider(old.limits, wanted.limits);
  const family = WIDENING.find((types) => types.includes(old.base) && types.includes(wanted.base));
  if (!family || family.indexOf(old.base) > family.indexOf(wanted.base)) return !readsBack(old.base, wanted);
  return wanted.limits.length > 0;
}

/** Each of these is written as text in one way only, which is read back as the same value. */
const EXACT_AS_TEXT = new Set([
  'smallint',
  'integer',
  'bigint',
  'uuid',
  'boolean',
  'date',
  'text',
  'numeric',
]);

function readsBack(base: string, wanted: Parsed): boolean {
  return (
    ['text', 'character varying'].includes(wanted.base) &&
    wanted.limits.length === 0 &&
    EXACT_AS_TEXT.has(base)
  );
}

interface Parsed {
  base: string;
  limits: number[];
}

function parsed(type: string): Parsed {
  const match = /^(.*?)\(([\d, -]+)\)(.*)$/.exec(type);
  if (!match) return { base: type.trim(), limits: [] };
  return { base: `${match[1]}${match[3]}`.trim(), limits: (match[2] ?? '').split(',').map(Number) };
}

/** Without limits a type takes everything; numeric(p, s) is wider only with as many digits before the point. */
function sameOrWider(old: number[], wanted: number[]): boolean {
  if (wanted.length === 0) return true;
  const [length, scale = 0] = wanted;
  const [oldLength, oldScale = 0] = old;
  if (oldLength === undefined || length === undefined) return false;
  return scale >= oldScale && length - scale >= oldLength - oldScale;
}
