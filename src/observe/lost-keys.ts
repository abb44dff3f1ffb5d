import * as z from 'zod/mini';
import type { Session } from '../postgres/connection/session.ts';
import { type ComparedRow, type ComparedTable, type ReadColumn, rowsByKey, sampleOf } from './row-values.ts';

/** Keys of one object, and values at any depth, that are compared at most. */
const MOST_KEYS = 50;
const MOST_VALUES = 100;

const isObject = (value: string) => `jsonb_typeof(${value}::jsonb) = 'object'`;

/** The keys of an object with hashes of their values. */
const ENTRIES = (value: string) => `CASE WHEN ${isObject(value)} THEN
  (SELECT json_agg(json_build_array(e.key, hashtext(e.value::text COLLATE "C")))::text
     FROM (SELECT * FROM jsonb_each(${value}::jsonb) LIMIT ${MOST_KEYS}) e) END`;

/** The keys of an object, and hashes of all values within. */
const CONTENT = (value: string) => `json_build_object(
  'keys', CASE WHEN ${isObject(value)} THEN
    (SELECT json_agg(k.key) FROM (SELECT jsonb_object_keys(${value}::jsonb) AS key LIMIT ${MOST_VALUES}) k) END,
  'values', (SELECT json_agg(hashtext(v.value::text COLLATE "C"))
    FROM (SELECT jsonb_path_query(${value}::jsonb, '$.**') AS value LIMIT ${MOST_VALUES}) v))::text`;

const entries = z.array(z.tuple([z.string(), z.number()]));
const content = z.object({ keys: z.nullable(z.array(z.string())), values: z.nullable(z.array(z.number())) });

interface Sides {
  readonly target: Session;
  readonly clone: Session;
  readonly before: ComparedTable;
  readonly after: ComparedTable;
  readonly since: number | undefined;
}

export function isJson(type: string): boolean {
  return type === 'jsonb' || type === 'json';
}

/**
 * Counts JSON objects of which no key is left, in the rows of some pages. An object that was nested, or whose keys were only renamed, still
 * has its values; one with a single key may have been emptied on purpose.
 * @param columns names that both sides have.
 * @returns the counts in the order of the columns.
 */
export async function lostKeys(
  { target, clone, before, after, since }: Sides,
  columns: readonly string[],
): Promise<number[]> {
  const reading = (part: NonNullable<ReadColumn['part']>) =>
    columns.map((name): ReadColumn => ({ name, type: 'jsonb', part, plain: true }));
  const { key } = before;
  const then = await target.query<ComparedRow & object>(
    sampleOf({ table: before, key, columns: reading(ENTRIES), before: since }),
  );
  const now = await rowsByKey(clone, { table: after, key, columns: reading(CONTENT) }, then);
  const byKey = new Map(now.map((row) => [JSON.stringify(row.key), row.values]));
  return columns.map(
    (_, at) =>
      then.filter((row) => isLost(row.values[at] ?? null, byKey.get(JSON.stringify(row.key))?.[at] ?? null))
        .length,
  );
}

function isLost(before: string | null, after: string | null): boolean {
  if (before === null || after === null) return false;
  const had = entries.parse(JSON.parse(before));
  const { keys, values } = content.parse(JSON.parse(after));
  const [left, kept] = [new Set(keys ?? []), new Set(values ?? [])];
  const isEmptied = had.length === 1 && left.size === 0 && keys === null && kept.size <= 1;
  return !isEmptied && had.every(([key]) => !left.has(key)) && had.some(([, value]) => !kept.has(value));
}
