import type { ActionOf } from '../model/statement-actions.ts';
import { beginsAsData } from '../postgres/sql/classify-statement.ts';
import type { Node } from '../postgres/sql/tree.ts';
import { shapeWithoutValues } from '../postgres/sql/value-shape.ts';

type Variation = ActionOf<'vary'>;

/** A value counts as the time of the run if it is so close before its statement, or up to a second after it. */
const BEFORE_MS = 30_000;
const AFTER_MS = 1_000;
const QUARTER_HOUR_MS = 900_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;
/** A time to the minute may be a minute older. */
const MINUTE_MS = 60_000;

const NUMBER_OF_TIME = /(?<![0-9a-fA-F])(?:\d{10}|\d{13}|\d{16})(?![0-9a-fA-F])/g;
const TIMESTAMP =
  /(?<!\d)(20\d\d)[-_]?(\d\d)[-_]?(\d\d)[T _-]?(\d\d)[:_-]?(\d\d)[:_-]?(\d\d)(?=\d{3}(?!\d)|\d{6}(?!\d)|(?!\d))/g;
const MINUTES = /(?<!\d)(20\d\d)[-_]?(\d\d)[-_]?(\d\d)[T _-]?(\d\d)[:_-]?(\d\d)(?![:_-]?\d)/g;
/** Address of an object or a thread on Linux, as Python's id() and thread.get_ident() return it: 0x7f…, in decimal or hexadecimal digits. */
const ADDRESS = /(?<![0-9a-f])(?:7f[0-9a-f]{10}|1(?:39[6-9]|40[0-7])\d{11})(?![0-9a-f])/gi;
const UUID =
  /(?<![0-9a-f])[0-9a-f]{8}([-_]?)[0-9a-f]{4}\1([47])[0-9a-f]{3}\1[89ab][0-9a-f]{3}\1[0-9a-f]{12}(?![0-9a-f])/gi;

/** Most definitions need not be searched. */
const MAY_VARY = /\d{8}|20\d\d[-_]\d\d|[0-9a-f]{8}[-_]|7f[0-9a-f]{10}/i;

/**
 * Finds what is another thing in the next run of the command: times of this run, to the second or minute, and in names random UUIDs
 * and addresses. Values that an apply permits to differ (value-shape.ts) are left out.
 * @param at when the statement began, in milliseconds since 1970.
 */
export function variationsIn(sql: string, node: Node, at: number): Variation[] {
  if (beginsAsData(sql) || !MAY_VARY.test(sql)) return [];
  const texts = textsIn(JSON.parse(shapeWithoutValues(node)), '');
  return texts.flatMap(({ text, isName }) => [...timesIn(text, at), ...(isName ? randomIn(text) : [])]);
}

function textsIn(part: unknown, key: string): { readonly text: string; readonly isName: boolean }[] {
  if (typeof part === 'string') return [{ text: part, isName: /name$/.test(key) }];
  if (typeof part === 'number') return [{ text: String(part), isName: false }];
  if (typeof part !== 'object' || part === null) return [];
  return Object.entries(part).flatMap(([field, value]) => textsIn(value, Array.isArray(part) ? key : field));
}

function timesIn(text: string, at: number): Variation[] {
  const numbers = [...text.matchAll(NUMBER_OF_TIME)].map(([value]) => ({
    value,
    ms: Number(value) / 1_000 ** ((value.length - 13) / 3),
    zoned: true,
  }));
  const timestamps = [...text.matchAll(TIMESTAMP)].map(([value, ...parts]) => ({
    value,
    ms: utcOf(parts),
    zoned: false,
  }));
  const uuids = [...text.matchAll(UUID)]
    .filter(([, , version]) => version === '7')
    .map(([value]) => ({
      value,
      ms: Number.parseInt(value.replace(/[-_]/g, '').slice(0, 12), 16),
      zoned: true,
    }));
  const exact = [...numbers, ...timestamps, ...uuids].filter(({ ms, zoned }) => isOfTheRun(at - ms, zoned));
  const minutes = [...text.matchAll(MINUTES)].filter(([, ...parts]) => isMinuteOfTheRun(at - utcOf(parts)));
  return [...exact.map(({ value }) => value), ...minutes.map(([value]) => value)].map(
    (value) => ({ does: 'vary', value, as: 'time' }) as const,
  );
}

function utcOf(parts: readonly string[]): number {
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.map(Number);
  return Date.UTC(year, month - 1, day, hour, minute, second);
}

/** Fewer time zones count than for seconds, so that a minute within the last day is seldom taken for that of the run. */
function isMinuteOfTheRun(agoMs: number): boolean {
  if (Math.abs(agoMs) > DAY_MS) return false;
  const apart = agoMs - Math.round((agoMs - MINUTE_MS / 2) / HOUR_MS) * HOUR_MS;
  return apart >= -AFTER_MS && apart <= BEFORE_MS + MINUTE_MS;
}

/** Time zones differ by quarters of an hour. */
function isOfTheRun(agoMs: number, zoned: boolean): boolean {
  if (Math.abs(agoMs) > DAY_MS) return false;
  const apart = zoned
    ? agoMs
    : agoMs - Math.round((agoMs - BEFORE_MS / 2) / QUARTER_HOUR_MS) * QUARTER_HOUR_MS;
  return apart >= -AFTER_MS && apart <= BEFORE_MS;
}

function randomIn(text: string): Variation[] {
  const uuids = [...text.matchAll(UUID)].filter(([, , version]) => version === '4');
  const addresses = [...text.matchAll(ADDRESS)];
  return [
    ...uuids.map(([value]) => ({ does: 'vary', value, as: 'UUID' }) as const),
    ...addresses.map(([value]) => ({ does: 'vary', value, as: 'address' }) as const),
  ];
}
