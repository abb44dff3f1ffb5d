import type { ColumnType } from './online-catalogue.ts';

const INTEGER_DIGITS: Readonly<Record<string, number>> = { int2: 5, int4: 10, int8: 19 };
const TEXTS = new Set(['text', 'varchar', 'citext']);
/** Types whose text is the same by a cast and by their output. */
const SAME_AS_TEXT = new Set(['int2', 'int4', 'int8', 'numeric', 'uuid', 'json', 'jsonb']);
/** Types that a cast from text reads by their input, with any settings of the session. */
const READ_FROM_TEXT = new Set([...SAME_AS_TEXT, 'bool']);
const JSONS = new Set(['json', 'jsonb']);
/** Types whose length or precision the input applies in the same way as the cast. */
const MODIFIED = new Set(['numeric', 'varchar', 'timestamp', 'timestamptz', 'time', 'interval']);

/**
 * Tells whether a change of type gives the value that the new type reads from the text of the old one. Logical replication sends
 * text, so that rows of the catch-up then get the same values as those that the command converted.
 */
export function convertsAsText(from: ColumnType, to: ColumnType): boolean {
  if (from.attributes !== to.attributes || from.isArray !== to.isArray) return false;
  if (from.base === to.base) return sameBase(from, to);
  if (from.labels && to.labels) return from.labels.every((label) => to.labels?.includes(label));
  if (from.labels) return TEXTS.has(to.name ?? '');
  if (to.labels) return TEXTS.has(from.name ?? '');
  return from.name !== null && to.name !== null && namedAgree(from.name, to.name);
}

function sameBase(from: ColumnType, to: ColumnType): boolean {
  if (from.modifier === to.modifier || MODIFIED.has(to.name ?? '')) return true;
  // Blanks are added up to the length.
  return to.name === 'bpchar' && to.modifier > from.modifier;
}

function namedAgree(from: string, to: string): boolean {
  const [digits, room] = [INTEGER_DIGITS[from], INTEGER_DIGITS[to]];
  if (digits !== undefined && room !== undefined) return room > digits;
  if (digits !== undefined && to === 'numeric') return true;
  if (TEXTS.has(to)) return TEXTS.has(from) || SAME_AS_TEXT.has(from);
  if (TEXTS.has(from)) return READ_FROM_TEXT.has(to);
  return JSONS.has(from) && JSONS.has(to);
}
