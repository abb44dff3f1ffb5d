/**
 * Checks of the few JSON texts that safemigrate writes and reads itself. A run checks its own marks, and a library for
 * that would take longer to load than the check of a target takes.
 */

/** @returns the value, without what its type does not know. @throws TypeError when it is something else. */
export type Shape<T> = (value: unknown) => T;

export type Shaped<S> = S extends Shape<infer T> ? T : never;

export const text: Shape<string> = (value) => (typeof value === 'string' ? value : refuse(value, 'a text'));

export const truth: Shape<boolean> = (value) =>
  typeof value === 'boolean' ? value : refuse(value, 'true or false');

export const positiveInteger: Shape<number> = (value) =>
  typeof value === 'number' && Number.isSafeInteger(value) && value > 0
    ? value
    : refuse(value, 'a positive integer');

export function oneOf<const T extends string | number>(...values: readonly T[]): Shape<T> {
  return (value) => values.find((each) => each === value) ?? refuse(value, values.join(' or '));
}

/** What the function makes of a text; undefined refuses it. */
export function textThat<T>(read: (text: string) => T | undefined, what: string): Shape<T> {
  return (value) => read(text(value)) ?? refuse(value, what);
}

export function orNull<T>(shape: Shape<T>): Shape<T | null> {
  return (value) => (value === null ? null : shape(value));
}

export function list<T>(shape: Shape<T>): Shape<T[]> {
  return (value) => (Array.isArray(value) ? value.map(shape) : refuse(value, 'a list'));
}

type Fields = Readonly<Record<string, Shape<unknown>>>;
type Required<F extends Fields> = { [Key in keyof F]: Shaped<F[Key]> };

export function object<R extends Fields, O extends Fields = Record<never, never>>(
  required: R,
  optional?: O,
): Shape<Required<R> & Partial<Required<O>>> {
  return (value) => {
    if (typeof value !== 'object' || value === null) return refuse(value, 'an object');
    const given = new Map(Object.entries(value));
    const known = Object.entries({ ...required, ...optional }).filter(
      ([key]) => given.has(key) || key in required,
    );
    return Object.fromEntries(known.map(([key, shape]) => [key, shape(given.get(key))])) as Required<R> &
      Partial<Required<O>>;
  };
}

function refuse(value: unknown, wanted: string): never {
  throw new TypeError(`${JSON.stringify(value) ?? 'nothing'} is not ${wanted}`);
}
