import type { SchemaSection } from '../model/report.ts';
import type { Conversion } from '../model/statement-actions.ts';

/** Types in the order in which each takes every value of those before it. */
const WIDENING: readonly (readonly string[])[] = [
  ['smallint', 'integer', 'bigint', 'numeric'],
  ['smallint', 'real', 'double precision'],
  ['integer', 'double precision'],
  ['character varying', 'text'],
  ['date', 'timestamp without time zone'],
];

/** Tells if one type takes every value of another, unchanged. Types are written as by format_type; false for unknown pairs. */
export function takesAll(from: string, to: string): boolean {
  const [old, wanted] = [parsed(from), parsed(to)];
  if (old.base === wanted.base) return sameOrWider(old.limits, wanted.limits);
  const family = WIDENING.find((types) => types.includes(old.base) && types.includes(wanted.base));
  if (!family || family.indexOf(old.base) > family.indexOf(wanted.base)) return readsBack(old.base, wanted);
  return wanted.limits.length === 0;
}

/**
 * Tells if a change of a column's type may shorten, round or normalise stored values. A value that the server refuses is no loss:
 * it always refuses numbers out of range, and refuses strings that are too long unless the cast is explicit. Trailing spaces do not count.
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

/** Tells if equal values of two types read alike as text, but for the zeros at the end of a number and the spaces after a string. */
export function readAlike(from: string, to: string): boolean {
  const [old, wanted] = [parsed(from).base, parsed(to).base];
  const isNumber = (base: string) => base === 'numeric' || WHOLE_NUMBERS.has(base);
  return old === wanted || [old, wanted].every((base) => STRINGS.has(base)) || [old, wanted].every(isNumber);
}

/** Writes a value as it comes back from another type, as SQL. */
export type ThereAndBack = (value: string) => string;

/**
 * Returns the casts to the new type and back, if their result shows whether a value survives: both types are built in, and no setting but
 * the time zone affects them. @example `v::numeric(10,1)::numeric(10,2)`
 */
export function thereAndBack(from: string, to: string): ThereAndBack | null {
  const [old, wanted] = [parsed(from).base, parsed(to).base];
  if (MOMENTS.has(old) && TIMES_OF_DAY.has(wanted))
    return (value) => `CASE WHEN ${value}::date IN (${DATES_OF_TIMES}) THEN ${value} END`;
  // Text loses its leading zeros in a number: a postcode, a customer's number.
  const isNumbered = STRINGS.has(old) && WHOLE_NUMBERS.has(wanted);
  const plain = isNumbered || CAST_PLAINLY.some((types) => types.has(old) && types.has(wanted));
  return plain ? (value) => `${value}::${to}::${from}` : null;
}

/** Returns the length of the new type if values of the old one may be longer; null: they are not, or have no length. */
export function shorterLength(from: string, to: string): number | null {
  const [old, wanted] = [parsed(from), parsed(to)];
  const length = lengthOf(wanted);
  return STRINGS.has(old.base) && STRINGS.has(wanted.base) && length < lengthOf(old) ? length : null;
}

/** Tells if its values are text, of which two may differ in nothing but their spelling. */
export function isText(type: string): boolean {
  return STRINGS.has(parsed(type).base);
}

const STRINGS: ReadonlySet<string> = new Set(['character varying', 'character', 'text']);
const WHOLE_NUMBERS: ReadonlySet<string> = new Set(['smallint', 'integer', 'bigint']);
const CAST_PLAINLY: readonly ReadonlySet<string>[] = [
  STRINGS,
  new Set([...WHOLE_NUMBERS, 'numeric', 'real', 'double precision']),
  new Set(['timestamp without time zone', 'date']),
  new Set(['timestamp with time zone', 'date']),
  new Set(['time without time zone']),
];

const MOMENTS: ReadonlySet<string> = new Set(['timestamp without time zone', 'timestamp with time zone']);
const TIMES_OF_DAY: ReadonlySet<string> = new Set(['time without time zone', 'time with time zone']);
/** Dates that tools write where only the time of day counts. */
const DATES_OF_TIMES = ['0001-01-01', '1899-12-30', '1900-01-01', '1970-01-01', '2000-01-01']
  .map((date) => `'${date}'`)
  .join(', ');

function lengthOf({ limits: [length] }: Parsed): number {
  return length ?? Number.POSITIVE_INFINITY;
}

/** The decimal digits after the point that an exact number keeps; null for other types. */
function scaleOf({ base, limits }: Parsed): number | null {
  if (WHOLE_NUMBERS.has(base)) return 0;
  if (base !== 'numeric') return null;
  return limits.length === 0 ? Number.POSITIVE_INFINITY : (limits[1] ?? 0);
}

/** Each value of these types has only one text form, which is read back as the same value. */
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

/** A column whose type changed, under its name from before; types as format_type writes them. */
export interface Retyped {
  readonly object: string;
  readonly from: string;
  readonly to: string;
  /** The new type is an enum, which takes texts that are its labels, and refuses all others. */
  readonly isEnum?: true;
}

/** Tells if the change of a column's type may change values of it. */
export function mayChangeValues({ from, to, isEnum }: Retyped, conversion: Conversion): boolean {
  const isOfTexts = ['text', 'character varying'].includes(parsed(from).base);
  return isEnum && isOfTexts && conversion !== 'expression' ? false : mayLose(from, to, conversion);
}

/** Describes the values that the rollback SQL cannot restore. */
export function valuesAsTheyWere({ object, from, to }: Retyped): string {
  return `the values of ${object} as they were in ${from} (${to} now)`;
}

/** Removes the losses of changes that are known to lose nothing: the comparison itself only knows the types. */
export function withoutLossOf(section: SchemaSection, harmless: readonly Retyped[]): SchemaSection {
  if (harmless.length === 0) return section;
  const objects = new Set(harmless.map(({ object }) => object));
  const sentences = new Set(harmless.map(valuesAsTheyWere));
  return {
    ...section,
    changes: section.changes.map((change) =>
      change.verb === 'alter' && change.kind === 'column' && objects.has(change.object)
        ? { ...change, dataLoss: false }
        : change,
    ),
    rollbackLoses: section.rollbackLoses.filter((words) => !sentences.has(words)),
  };
}
