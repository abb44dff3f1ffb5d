const LIST = ' AS ENUM (';
const VALUE = /\s*'((?:[^']|'')*)',?/y;

/** Reads the values of an enum type from the CREATE TYPE that makes it, in order; none if it makes another type. */
export function enumValues(definition: string | null): string[] {
  const at = definition?.indexOf(LIST) ?? -1;
  if (definition === null || at < 0) return [];
  const values: string[] = [];
  VALUE.lastIndex = at + LIST.length;
  for (let match = VALUE.exec(definition); match; match = VALUE.exec(definition))
    values.push((match[1] ?? '').replaceAll("''", "'"));
  return values;
}
