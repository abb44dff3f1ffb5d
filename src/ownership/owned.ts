import type { Session } from '../postgres/connection/session.ts';
import { type Mark, NAME_PATTERN, parseMark, parseOwnedName } from './mark.ts';
import { advisoryLockKey, markerConnectionLimit, type RunId } from './run-id.ts';

/** A database with one of our names or marks, and what is known of it. */
export interface OwnedDatabase {
  readonly name: string;
  readonly oid: number;
  readonly owner: string;
  readonly run: RunId | null;
  /** `made`: created by the command of a run for itself, and listed in the mark of that run's clone. */
  readonly role: Mark['role'] | 'made' | null;
  /**
   * `unmarked`: created by us, and cut off before it was marked. `closed`: the target itself, closed for a swap, never
   * dropped. `foreign`: not provably ours, never dropped.
   */
  readonly ownershipStatus: 'marked' | 'unmarked' | 'closed' | 'foreign';
  /** For `foreign`: why it is not ours. */
  readonly doubt: string | null;
  readonly mark: Mark | null;
  /** Liveness of the run that created it. Everything that drops treats `unknown` as alive. */
  readonly owning: 'alive' | 'dead' | 'unknown';
  /** Bytes; null if the role may not read it. */
  readonly sizeBytes: number | null;
  readonly sessions: number;
}

interface Row {
  name: string;
  oid: string;
  owner: string;
  ours: boolean;
  connection_limit: number;
  allows_connections: boolean;
  comment: string | null;
  size: string | null;
  sessions: string;
}

/** Without the CONNECT privilege pg_database_size fails. */
const DATABASES = `
SELECT d.datname AS name, d.oid::int8 AS oid, pg_get_userbyid(d.datdba) AS owner,
       pg_has_role(d.datdba, 'USAGE') AS ours,
       d.datconnlimit AS connection_limit, d.datallowconn AS allows_connections,
       shobj_description(d.oid, 'pg_database') AS comment,
       CASE WHEN $1 AND has_database_privilege(d.oid, 'CONNECT') THEN pg_database_size(d.oid) END AS size,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.datid = d.oid) AS sessions
  FROM pg_database d`;
const CANDIDATES = `${DATABASES}
 WHERE d.datname ~ '${NAME_PATTERN}'
    OR shobj_description(d.oid, 'pg_database') LIKE 'safemigrate: %'
 ORDER BY d.datname`;

const NAMED = `${DATABASES} WHERE d.datname = ANY ($2) ORDER BY d.datname`;

/** All advisory locks with a bigint key, as database OID and key. */
const HELD_LOCKS = `
SELECT database::int8 AS database, ((classid::int8 << 32) | objid::int8)::text AS key
  FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted`;

/** Lists the databases on this server that safemigrate created, or seems to have created. */
export async function ownedDatabases(session: Session, options = { sizes: true }): Promise<OwnedDatabase[]> {
  // Candidates are read before the locks, so that a run which starts in between never looks dead.
  const rows = await session.query<Row>(CANDIDATES, [options.sizes]);
  const locks = await session.query<Lock>(HELD_LOCKS);
  const found = rows.map((row) => judge(row, locks));
  const clones = found.filter(({ mark, ownershipStatus }) => mark?.databases && ownershipStatus === 'marked');
  if (clones.length === 0) return found;
  const names = clones.flatMap(({ mark }) => mark?.databases ?? []);
  const made = await session.query<Row>(NAMED, [options.sizes, names]);
  // These come first: the clone's mark proves them, and is dropped with the clone.
  return [...made.flatMap((row) => judgeMade(row, clones)), ...found];
}

/** Says whether any session holds the run's advisory lock; null: in any database. */
export async function runIsAlive(
  session: Session,
  run: RunId,
  lockDatabaseOid: number | null,
): Promise<boolean> {
  return liveness(run, lockDatabaseOid, await session.query<Lock>(HELD_LOCKS)) === 'alive';
}

interface Lock {
  readonly database: string;
  readonly key: string;
}

/** Finds databases with names recorded for the command; the limit proves that the command has created them. */
function judgeMade(row: Row, clones: readonly OwnedDatabase[]): OwnedDatabase[] {
  const clone = clones.find(({ mark, run }) => {
    const named = mark?.databases?.includes(row.name) ?? false;
    return named && run !== null && row.connection_limit === markerConnectionLimit(run);
  });
  if (!clone || !row.ours) return [];
  const { run, owning } = clone;
  return [
    { ...factsOf(row), run, role: 'made', mark: null, doubt: null, ownershipStatus: 'unmarked', owning },
  ];
}

function factsOf(row: Row): Pick<OwnedDatabase, 'name' | 'oid' | 'owner' | 'sizeBytes' | 'sessions'> {
  return {
    name: row.name,
    oid: Number(row.oid),
    owner: row.owner,
    sizeBytes: row.size === null ? null : Number(row.size),
    sessions: Number(row.sessions),
  };
}

function judge(row: Row, locks: readonly Lock[]): OwnedDatabase {
  const mark = parseMark(row.comment);
  const named = parseOwnedName(row.name);
  const facts = factsOf(row);
  if (typeof mark === 'object') {
    const closed = isClosedTarget(mark, row);
    const doubt = closed ? null : doubtOfMark(mark, named, facts, row);
    return {
      ...facts,
      run: mark.run,
      role: mark.role,
      mark,
      doubt,
      ownershipStatus: closed ? 'closed' : doubt === null ? 'marked' : 'foreign',
      owning: liveness(mark.run, mark.lockDatabaseOid, locks),
    };
  }
  const run = named?.run ?? null;
  const role = named?.role ?? null;
  const owning = run ? liveness(run, null, locks) : 'unknown';
  const unmarked = mark === 'foreign' && row.comment === null && isHalfBorn(row, run);
  if (unmarked) return { ...facts, run, role, mark: null, doubt: null, ownershipStatus: 'unmarked', owning };
  const doubt =
    mark === 'unreadable'
      ? 'its mark was written by another version of safemigrate, or was damaged'
      : 'it has no mark, and is not as safemigrate makes a database';
  return { ...facts, run, role, mark: null, doubt, ownershipStatus: 'foreign', owning };
}

/** Recognizes a closed target: the mark has its own name and OID. A clone of it has no comment, a renamed original another state. */
function isClosedTarget({ role, state, at }: Mark, row: Row): boolean {
  if (role !== 'original' || state !== 'fenced' || !('oid' in at) || !row.ours) return false;
  return at.database === row.name && at.oid === Number(row.oid);
}

function doubtOfMark(
  mark: Mark,
  named: ReturnType<typeof parseOwnedName>,
  facts: { name: string; oid: number },
  row: Row,
): string | null {
  if (mark.at.database !== facts.name) return `it was renamed by somebody: its mark says ${mark.at.database}`;
  if (mark.at.oid !== facts.oid) return `its mark belongs to the database with OID ${mark.at.oid}`;
  if (named?.run !== mark.run || named.role !== mark.role)
    return 'its name is not one that safemigrate gives, whatever its mark says';
  if (!row.ours) return `it belongs to the role ${row.owner}, whose rights this role does not have`;
  return null;
}

/**
 * Recognizes a database as CREATE DATABASE of that run has left it: no other has this name and limit and accepts no connections. A
 * DROP DATABASE that was cut off has overwritten the limit.
 */
function isHalfBorn(row: Row, run: RunId | null): boolean {
  if (run === null || !row.ours || row.allows_connections) return false;
  return [markerConnectionLimit(run), INVALID].includes(row.connection_limit);
}

/** PostgreSQL's DATCONNLIMIT_INVALID_DB: such a database can only be dropped. */
const INVALID = -2;

function liveness(
  run: RunId,
  lockDatabaseOid: number | null,
  locks: readonly Lock[],
): OwnedDatabase['owning'] {
  const key = advisoryLockKey(run);
  const held = locks.some(
    (lock) => lock.key === key && (lockDatabaseOid === null || Number(lock.database) === lockDatabaseOid),
  );
  return held ? 'alive' : 'dead';
}
