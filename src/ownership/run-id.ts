import { createHash, randomInt } from 'node:crypto';
import * as z from 'zod/mini';

/**
 * A run's id: 9 characters of time (milliseconds since 1970, so that ids sort by time), 3 random ones, and a check character, all in
 * Crockford's alphabet in lower case. It fits into database names of 63 bytes, and a mistyped or invented one is recognized.
 */
export type RunId = string & { readonly brand: 'RunId' };

const ALPHABET = '0123456789abcdefghjkmnpqrstvwxyz';
const TIME_LENGTH = 9;
const RANDOM_LENGTH = 3;
export const RUN_ID_LENGTH = TIME_LENGTH + RANDOM_LENGTH + 1;

export function newRunId(now: number = Date.now()): RunId {
  const time = encode(now, TIME_LENGTH);
  const random = encode(randomInt(ALPHABET.length ** RANDOM_LENGTH), RANDOM_LENGTH);
  return (time + random + checkCharacter(time + random)) as RunId;
}

export function parseRunId(text: string): RunId | undefined {
  if (text.length !== RUN_ID_LENGTH || [...text].some((character) => !ALPHABET.includes(character)))
    return undefined;
  return checkCharacter(text.slice(0, -1)) === text.at(-1) ? (text as RunId) : undefined;
}

/** A run id in a stored record. */
export const runIdSchema = z.custom<RunId>(
  (value) => typeof value === 'string' && parseRunId(value) !== undefined,
);

/** Returns the time of the id, in milliseconds since 1970. */
export function startOf(run: RunId): number {
  return [...run.slice(0, TIME_LENGTH)].reduce((sum, character) => sum * 32 + ALPHABET.indexOf(character), 0);
}

/** Returns the key of the run's advisory lock, a bigint in decimal. */
export function advisoryLockKey(run: RunId): string {
  return digest(run, 'advisory lock').readBigInt64BE(0).toString();
}

/**
 * Returns the CONNECTION LIMIT with which CREATE DATABASE marks a database of the run: between 1,000,000,000 and 1,999,999,999,
 * which is never set by hand.
 */
export function markerConnectionLimit(run: RunId): number {
  return 1_000_000_000 + (digest(run, 'connection limit').readUInt32BE(0) % 1_000_000_000);
}

/** Tells if a CONNECTION LIMIT is the mark of some run. */
export function isMarkerLimit(limit: number): boolean {
  return limit >= 1_000_000_000 && limit < 2_000_000_000;
}

function encode(value: number, length: number): string {
  let text = '';
  for (let rest = value; text.length < length; rest = Math.floor(rest / 32))
    text = ALPHABET[rest % 32] + text;
  return text;
}

/**
 * Computes the check character: a sum in the field of 32 elements, with a different weight for each position, so that one wrong
 * character, or two swapped ones, change it. (Sums modulo 31 could not distinguish the first and the last character.)
 */
function checkCharacter(text: string): string {
  const sum = [...text].reduce((total, character) => timesGenerator(total) ^ ALPHABET.indexOf(character), 0);
  return ALPHABET.charAt(timesGenerator(sum));
}

/** Multiplies modulo x^5 + x^2 + 1, whose root generates the field. */
function timesGenerator(element: number): number {
  const doubled = element << 1;
  return doubled < 32 ? doubled : doubled ^ 0b100101;
}

function digest(run: RunId, purpose: string): Buffer {
  return createHash('sha256').update(`safemigrate ${purpose} ${run}`).digest();
}
