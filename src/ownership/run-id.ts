import { createHash, randomInt } from 'node:crypto';
import * as z from 'zod/mini';

/**
 * A run's name: 9 characters of time (milliseconds since 1970, so that names sort by time), 3 of chance, and a
 * check character, all in Crockford's alphabet in lower case: short enough for a database name of 63 bytes, and
 * a mistyped or made-up one is recognised.
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

/** When the run was named, in milliseconds since 1970. */
export function startOf(run: RunId): number {
  return [...run.slice(0, TIME_LENGTH)].reduce((sum, character) => sum * 32 + ALPHABET.indexOf(character), 0);
}

/** The key of the advisory lock that the run's owner holds, as PostgreSQL's bigint in decimal. */
export function advisoryLockKey(run: RunId): string {
  return digest(run, 'advisory lock').readBigInt64BE(0).toString();
}

/**
 * The CONNECTION LIMIT that marks a database in the very statement that makes it: between 1,000,000,000 and
 * 1,999,999,999, which nobody sets by hand.
 */
export function birthLimit(run: RunId): number {
  return 1_000_000_000 + (digest(run, 'connection limit').readUInt32BE(0) % 1_000_000_000);
}

function encode(value: number, length: number): string {
  let text = '';
  for (let rest = value; text.length < length; rest = Math.floor(rest / 32))
    text = ALPHABET[rest % 32] + text;
  return text;
}

/**
 * A sum in the field of 32 elements, each character with a weight of its own: any one character that is wrong, and any
 * two that changed places, change it. (Sums modulo 31 would take the first and the last character for the same.)
 */
function checkCharacter(text: string): string {
  const sum = [...text].reduce((total, character) => timesGenerator(total) ^ ALPHABET.indexOf(character), 0);
  return ALPHABET.charAt(timesGenerator(sum));
}

/** Modulo x^5 + x^2 + 1, whose root generates the field. */
function timesGenerator(element: number): number {
  const doubled = element << 1;
  return doubled < 32 ? doubled : doubled ^ 0b100101;
}

function digest(run: RunId, purpose: string): Buffer {
  return createHash('sha256').update(`safemigrate ${purpose} ${run}`).digest();
}
