import { list, object, oneOf, positiveInteger, text, textThat, truth } from '../shape.ts';
import { parseRunId, RUN_ID_LENGTH, type RunId } from './run-id.ts';

/**
 * What safemigrate writes on the databases it makes (COMMENT ON DATABASE; for folders see folder-mark.ts), so that a later
 * process can tell whose they are, whether their owner lives, and whether this really is the thing that was marked:
 * a copy of a cluster carries production's marks inside it, so a mark names the identity of its thing.
 */
export interface Mark {
  readonly version: 1;
  readonly run: RunId;
  readonly role: 'clone' | 'original' | 'probe';
  /** OID of the database that was cloned. */
  readonly targetOid: number;
  readonly state: 'creating' | 'ready' | 'fenced' | 'migrated' | 'renamed';
  readonly at: { database: string; oid: number };
  /** Advisory locks are per database: the OID of the one in which the owner holds the run's lock. */
  readonly lockDatabaseOid: number;
  /** The user asked to keep it (`--keep`): `clean` leaves it unless told otherwise. */
  readonly kept?: boolean;
  /** Of a clone: databases that the command made for itself there, each named before it was made. */
  readonly databases?: readonly string[];
  /** Of a closed target: consoles of the PgBouncers that were paused for it, each as `host:port`. */
  readonly pgbouncer?: readonly string[];
  /** Of an original: the target's own comment, in whose place the mark stands; absent where it had none. */
  readonly comment?: string;
  /** Of a kept original: OID of the database that has its name since. */
  readonly successor?: number;
  /** Of a kept original: rows that were written in its successor until it took the name (swap/writes.ts). */
  readonly writes?: string;
  /** Since when the server had counted them. */
  readonly countedSince?: string;
  /** Of a kept original: until when it is meant to be kept, in ISO 8601; absent where nobody said. */
  readonly keepUntil?: string;
}

const PREFIX = 'safemigrate: ';

const mark = object(
  {
    version: oneOf(1),
    run: textThat(parseRunId, 'a run id'),
    role: oneOf('clone', 'original', 'probe'),
    targetOid: positiveInteger,
    state: oneOf('creating', 'ready', 'fenced', 'migrated', 'renamed'),
    at: object({ database: text, oid: positiveInteger }),
    lockDatabaseOid: positiveInteger,
  },
  {
    kept: truth,
    databases: list(text),
    pgbouncer: list(text),
    comment: text,
    successor: positiveInteger,
    writes: text,
    countedSince: text,
    keepUntil: textThat((time) => (Number.isNaN(Date.parse(time)) ? undefined : time), 'a time'),
  },
);

export function formatMark(content: Mark): string {
  return PREFIX + JSON.stringify(content);
}

/** @returns the mark, `'foreign'` for a text that is none of ours, `'unreadable'` for one of ours that we cannot judge. */
export function parseMark(content: string | null): Mark | 'foreign' | 'unreadable' {
  if (content === null || !content.startsWith(PREFIX)) return 'foreign';
  try {
    return mark(JSON.parse(content.slice(PREFIX.length)));
  } catch {
    return 'unreadable';
  }
}

/** PostgreSQL's NAMEDATALEN - 1. */
const NAME_BYTES = 63;
const NAME = new RegExp(`_(rehearsal|before|probe)_([0-9a-z]{${RUN_ID_LENGTH}})$`);

/** `<target>_rehearsal_<run>` and its like, cut to 63 bytes between characters and never inside the run id. */
export function ownedName(target: string, kind: 'rehearsal' | 'before' | 'probe', run: RunId): string {
  const suffix = `_${kind}_${run}`;
  let stem = '';
  let bytes = Buffer.byteLength(suffix);
  for (const character of target) {
    bytes += Buffer.byteLength(character);
    if (bytes > NAME_BYTES) break;
    stem += character;
  }
  return stem + suffix;
}

export function parseOwnedName(
  name: string,
): { kind: 'rehearsal' | 'before' | 'probe'; run: RunId } | undefined {
  const match = NAME.exec(name);
  const run = match?.[2] && parseRunId(match[2]);
  return run ? { kind: match[1] as 'rehearsal' | 'before' | 'probe', run } : undefined;
}
