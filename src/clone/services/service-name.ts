import { createHash } from 'node:crypto';
import { parseRunId, RUN_ID_LENGTH, type RunId, startOf } from '../../ownership/run-id.ts';

/**
 * The name of a clone at a service is its mark, since every service holds a name: `safemigrate-RUN-360m-PLACECHECK`. It has the
 * run, the lifetime in minutes (`k` instead of `m` for a clone that is kept), digits of the target's address, and check digits over
 * all of it. It fits into 50 characters, begins with a letter and has no two hyphens in a row, as the strictest service demands.
 */
export interface ServiceMark {
  readonly run: RunId;
  /** In ISO 8601, without fractions of a second. */
  readonly expiresAt: string;
  readonly kept: boolean;
  /** Digits of the server on which the run holds its lock. */
  readonly place: string;
}

const PREFIX = 'safemigrate-';
const DIGITS = 5;
const FORM = new RegExp(
  `^${PREFIX}([0-9a-z]{${RUN_ID_LENGTH}})-(\\d{1,6})([mk])-([0-9a-f]{${DIGITS}})([0-9a-f]{${DIGITS}})$`,
);
const MINUTE_MS = 60_000;

export function nameOfClone({
  run,
  place,
  ttlMs,
  kept,
}: Pick<ServiceMark, 'run' | 'place' | 'kept'> & { readonly ttlMs: number }): string {
  const minutes = Math.max(1, Math.ceil(ttlMs / MINUTE_MS));
  const body = `${run}-${minutes}${kept ? 'k' : 'm'}-${place}`;
  return `${PREFIX}${body}${digits(body)}`;
}

/** Reads a name. @returns null for a name that is not ours in every character. */
export function parseCloneName(name: string): ServiceMark | null {
  const [, text = '', minutes = '', letter, place = '', check] = FORM.exec(name) ?? [];
  const run = parseRunId(text);
  if (run === undefined || digits(`${text}-${minutes}${letter}-${place}`) !== check) return null;
  const expiresAt = timeOfService(startOf(run) + Number(minutes) * MINUTE_MS);
  return { run, expiresAt, kept: letter === 'k', place };
}

export function looksLikeOurs(name: string): boolean {
  return name.startsWith(PREFIX);
}

/** Digits of a target's address. Another name of the same server has others, so that nothing follows from a difference. */
export function serverDigits({ host, port }: { readonly host: string; readonly port: number }): string {
  return digits(`${host.toLowerCase()}:${port}`);
}

/** A time as services take it. */
function timeOfService(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d+/, '');
}

function digits(text: string): string {
  return createHash('sha256').update(`safemigrate clone ${text}`).digest('hex').slice(0, DIGITS);
}
