import type { Conversion } from '../model/hazard-facts.ts';

/** Types in the order in which each takes every value of those before it. */
const WIDENING: readonly (readonly string[])[] = [
  ['smallint', 'integer', 'bigint', 'numeric'],
  ['smallint', 'real', 'double precision'],
  ['integer', 'double precision'],
  ['character varying', 'text'],
  ['date', 'timestamp without time zone'],
];

/** Whether one type takes every value of another, unchanged. Types as format_type writes them; of unknown pairs, no. */
export function takesAll(from: string, to: string): boolean {
  const [old, wanted] = [parsed(from), parsed(to)];
  if (old.base === wanted.base) return sameOrWider(old.limits, wanted.limits);
  const family = WIDENING.find((types) => types.includes(old.base) && types.includes(wanted.base));
  if (!family || family.indexOf(old.base) > family.indexOf(wanted.base)) return readsBack(old.base, wanted);
  return wanted.limits.length === 0;
}

/**
 * Whether stored values may come out shorter, rounded or normalised by a change of a column's type. What the new type
 * cannot hold is no loss where the server refuses it: numbers out of range always, strings that are too long unless a cast
 * is written out. Trailing spaces count for nothing.
 */
export function mayLose(from: string, to: string, conversion: Conversion): boolean {
  if (takesAll(from, to)) return false;
  if (conversion === 'expression') return true;
  const [old, wanted] = [parsed(from), parsed(to)];
  if (STRINGS.has(old.base) && STRINGS.has(wanted.base))
    return conversion === 'cast' && lengthOf(wanted) < lengthOf(old);
  const [scale, left] = [scaleOf(old), scaleOf(wanted)];
  return scale === null || left === null || left < scale;
}

/**
 * The casts that a value goes through there and back, where that tells whether it survives: both are types of PostgreSQL's
 * own, and neither settings nor time zones have a say in it. @example `::numeric(10,1)::numeric(10,2)`
 */
export function thereAndBack(from: string, to: string): string | null {
  const [old, wanted] = [parsed(from).base, parsed(to).base];
  const plain = CAST_PLAINLY.some((types) => types.has(old) && types.has(wanted));
  return plain ? `::${to}::${from}` : null;
}

const STRINGS: ReadonlySet<string> = new Set(['character varying', 'character', 'text']);
const WHOLE_NUMBERS: ReadonlySet<string> = new Set(['smallint', 'integer', 'bigint']);
const CAST_PLAINLY: readonly ReadonlySet<string>[] = [
  STRINGS,
  new Set([...WHOLE_NUMBERS, 'numeric', 'real', 'double precision']),
  new Set(['timestamp without time zone', 'date']),
  new Set(['timestamp with time zone']),
  new Set(['time without time zone']),
];

function lengthOf({ limits: [length] }: Parsed): number {
  return length ?? Number.POSITIVE_INFINITY;
}

/** Decimal digits behind the point that an exact number keeps; null: it is none. */
function scaleOf({ base, limits }: Parsed): number | null {
  if (WHOLE_NUMBERS.has(base)) return 0;
  if (base !== 'numeric') return null;
  return limits.length === 0 ? Number.POSITIVE_INFINITY : (limits[1] ?? 0);
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
