import * as z from 'zod/mini';
import { parseRunId, RUN_ID_LENGTH, type RunId, runIdSchema } from './run-id.ts';

const oid = z.int().check(z.positive());
const time = z.string().check(z.refine((text) => !Number.isNaN(Date.parse(text))));

/**
 * Mark that safemigrate writes on the databases it makes (COMMENT ON DATABASE; for folders see folder-records.ts), so that a later
 * process can determine whose they are, whether their owner lives, and whether this really is the thing that was marked:
 * a copy of a cluster carries production's marks inside it, so a mark names the identity of its thing.
 */
const mark = z.object({
  version: z.literal(1),
  run: runIdSchema,
  role: z.enum(['clone', 'original', 'rolled-back', 'probe']),
  /** OID of the database that was cloned. */
  targetOid: oid,
  state: z.enum(['creating', 'ready', 'fenced', 'migrated', 'renamed']),
  at: z.object({ database: z.string(), oid }),
  /** OID of the database in which the owner holds the run's lock: advisory locks are per database. */
  lockDatabaseOid: oid,
  /** The user asked to keep it (`--keep`): `clean` leaves it unless a flag says otherwise. */
  kept: z.exactOptional(z.boolean()),
  /** For a clone: databases that the command created for itself, each recorded before it was created. */
  databases: z.exactOptional(z.readonly(z.array(z.string()))),
  /** For the clone of an online swap: whether the order to cut over was given; absent: none is waited for. */
  cutOver: z.exactOptional(z.enum(['postponed', 'ordered'])),
  /** For a closed target: consoles of the PgBouncers that were paused for it, each as `host:port`. */
  pgbouncer: z.exactOptional(z.readonly(z.array(z.string()))),
  /** For a closed target, and a database that was put aside (put-aside.ts): its own comment, which the mark replaced; absent if it had none. */
  comment: z.exactOptional(z.string()),
  /** For a database that was put aside: OID of the database that has its name now. */
  successor: z.exactOptional(oid),
  /** For a database that was put aside: rows written in its successor before that took the name (swap/database-state.ts). */
  writes: z.exactOptional(z.string()),
  /** For a database that was put aside: digests of its successor's properties when that took the name (swap/database-state.ts). */
  properties: z.exactOptional(z.readonly(z.record(z.string(), z.string()))),
  /** Time of the last reset of the server's counters. */
  countedSince: z.exactOptional(z.string()),
  /** For a database that was put aside: the time of that. */
  putAsideAt: z.exactOptional(time),
  /** For a kept original: the time until which it is kept, in ISO 8601; absent if none was given. */
  keepUntil: z.exactOptional(time),
  /** For a kept original that follows its successor (way-back.ts). */
  wayBack: z.exactOptional(
    z.object({
      until: time,
      /** `starting`: if its run is dead, it never will follow. */
      state: z.enum(['starting', 'following']),
      /** The original's CONNECTION LIMIT. While it follows, the limit is 0. */
      connectionLimit: z.int(),
      /** Counters of rows inserted and changed in the successor's tables that it does not follow, by OID (swap/online/counters.ts). */
      counters: z.record(z.string(), z.readonly(z.tuple([z.string(), z.string()]))),
      /** Time of the last reset of these counters. */
      countedSince: z.string(),
      /** Bytes that have to stay free on the disk of the WAL (database/wal-space.ts). */
      leastFreeBytes: z.exactOptional(z.nullable(z.number())),
    }),
  ),
});

export type Mark = Readonly<z.infer<typeof mark>>;

/**
 * How a database lost its name to its successor: an `original` by a swap, a `rolled-back` one by a rollback, which has rows that are
 * nowhere else. Both are closed, and `rollback` brings them back.
 */
export type PutAside = Extract<Mark['role'], 'original' | 'rolled-back'>;

const PREFIX = 'safemigrate: ';

export function formatMark(content: Mark): string {
  return PREFIX + JSON.stringify(content);
}

/** Parses a comment. @returns the mark; `'foreign'` for other texts; `'unreadable'` for a mark that this version cannot read. */
export function parseMark(content: string | null): Mark | 'foreign' | 'unreadable' {
  if (content === null || !content.startsWith(PREFIX)) return 'foreign';
  try {
    return mark.parse(JSON.parse(content.slice(PREFIX.length)));
  } catch {
    return 'unreadable';
  }
}

/** PostgreSQL's NAMEDATALEN - 1. */
const NAME_BYTES = 63;
/** Words in the names of databases, by their role. */
const NAME_KINDS = {
  clone: 'rehearsal',
  original: 'before',
  'rolled-back': 'rolledback',
  probe: 'probe',
} as const satisfies Readonly<Record<Mark['role'], string>>;
const ROLES = Object.keys(NAME_KINDS) as Mark['role'][];

/** A pattern of all names that safemigrate gives, for JavaScript and for PostgreSQL. */
export const NAME_PATTERN = `_(${Object.values(NAME_KINDS).join('|')})_([0-9a-z]{${RUN_ID_LENGTH}})$`;
const NAME = new RegExp(NAME_PATTERN);

/** Builds names such as `<target>_rehearsal_<run>`, cut to 63 bytes, between characters and never inside the run id. */
export function ownedName(target: string, role: Mark['role'], run: RunId): string {
  const suffix = `_${NAME_KINDS[role]}_${run}`;
  let stem = '';
  let bytes = Buffer.byteLength(suffix);
  for (const character of target) {
    bytes += Buffer.byteLength(character);
    if (bytes > NAME_BYTES) break;
    stem += character;
  }
  return stem + suffix;
}

/** Reads the role and the run in a name that ownedName() may have built. */
export function parseOwnedName(name: string): { role: Mark['role']; run: RunId } | undefined {
  const match = NAME.exec(name);
  const run = match?.[2] && parseRunId(match[2]);
  const role = ROLES.find((each) => NAME_KINDS[each] === match?.[1]);
  return run && role ? { role, run } : undefined;
}
