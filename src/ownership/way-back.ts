import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';
import { isBeingChanged } from './change-lock.ts';
import { formatMark, type Mark } from './mark.ts';
import { type OwnedDatabase, ownedDatabases } from './owned.ts';
import { dropOwnedPublications, dropOwnedSlot, endingStatements, wayBackName } from './owned-replication.ts';
import { inTransaction } from './reopen.ts';
import type { RunId } from './run-id.ts';

/**
 * The way back of an online swap: the kept original follows the database that took its name, by a subscription in the original and a
 * publication and a slot in the other one. The server does it all; a process of ours ends it at its time, and `clean` does the same.
 * While it follows, the original accepts connections, as the worker needs it, but has CONNECTION LIMIT 0, which stops all roles but
 * superusers.
 */
export interface WayBack {
  readonly original: OwnedDatabase & { readonly mark: Mark; readonly run: RunId };
  readonly content: NonNullable<Mark['wayBack']>;
  /** The database that the original follows; null if it was dropped. */
  readonly successor: string | null;
  /** Why the original does not follow, and since when, if the server knows that (17+); null if it does. */
  readonly broken: Broken | null;
  /** Bytes of WAL that the original has not applied, and that the server keeps for it; null if there is no slot that has them. */
  readonly behindBytes: number | null;
  readonly keptBytes: number | null;
}

interface Broken {
  readonly reason: string;
  readonly since: string | null;
  /** `lost`: it never will follow again. `stopped`: it can be started again. `waiting`: the server starts it again. */
  readonly kind: 'lost' | 'stopped' | 'waiting';
}

const STATE = `
SELECT (SELECT datname::text FROM pg_database WHERE oid = $2) AS successor,
       s.subname IS NOT NULL AS subscribed, s.subenabled AS enabled, t.pid, d.datallowconn AS open,
       r.slot_name IS NOT NULL AS "hasSlot", to_jsonb(r) ->> 'inactive_since' AS since,
       r.wal_status IN ('reserved', 'extended') AS "hasWal",
       pg_wal_lsn_diff(pg_current_wal_lsn(), r.confirmed_flush_lsn)::float8 AS "behindBytes",
       pg_wal_lsn_diff(pg_current_wal_lsn(), r.restart_lsn)::float8 AS "keptBytes"
  FROM pg_database d
  LEFT JOIN pg_subscription s ON s.subname = $1 AND s.subdbid = d.oid
  LEFT JOIN pg_stat_subscription t ON t.subid = s.oid AND t.relid IS NULL
  LEFT JOIN pg_replication_slots r ON r.slot_name = $1 AND r.slot_type = 'logical'
 WHERE d.oid = $3`;

interface State {
  readonly successor: string | null;
  readonly subscribed: boolean;
  readonly enabled: boolean | null;
  readonly pid: number | null;
  readonly open: boolean;
  readonly hasSlot: boolean;
  readonly since: string | null;
  readonly hasWal: boolean | null;
  readonly behindBytes: number | null;
  readonly keptBytes: number | null;
}

/** Lists the ways back on this server. @param databases from ownedDatabases(). */
export async function readWayBacks(
  session: Session,
  databases: readonly OwnedDatabase[],
): Promise<WayBack[]> {
  const found: WayBack[] = [];
  for (const database of databases) {
    const { mark, run } = database;
    if (!mark?.wayBack || !run || database.role !== 'original' || database.ownershipStatus !== 'marked')
      continue;
    const values = [wayBackName(run), mark.successor ?? 0, database.oid];
    const [state] = await session.query<State>(STATE, values);
    if (!state) continue;
    const why = reasonNotToFollow(mark.wayBack, state);
    found.push({
      original: { ...database, mark, run },
      content: mark.wayBack,
      successor: state.successor,
      broken: why && { ...why, since: state.pid === null ? state.since : null },
      behindBytes: state.hasWal ? state.behindBytes : null,
      keptBytes: state.hasWal ? state.keptBytes : null,
    });
  }
  return found;
}

function reasonNotToFollow({ state }: WayBack['content'], now: State): Omit<Broken, 'since'> | null {
  const forGood = (reason: string) => ({ reason, kind: 'lost' as const });
  if (state === 'starting') return forGood('its making was cut off');
  if (now.successor === null) return forGood('the database that it follows was dropped');
  if (!now.subscribed) return forGood('its subscription was dropped');
  if (!now.hasSlot) return forGood('its replication slot was dropped');
  if (!now.hasWal)
    return forGood(
      'the server no longer keeps the WAL that it needs (max_slot_wal_keep_size, idle_replication_slot_timeout)',
    );
  if (!now.enabled || !now.open)
    return {
      reason: "it could not apply a write, or was cut off; the server's log has the error",
      kind: 'stopped',
    };
  if (now.pid === null)
    return {
      reason: "it has no worker at the moment; if that stays so, the server's log has the error",
      kind: 'waiting',
    };
  return null;
}

/** Says whether a way back is over. */
export function isOver({ original, content }: WayBack): boolean {
  if (original.owning === 'alive') return false;
  return content.state === 'starting' || Date.parse(content.until) <= Date.now();
}

/** Runs whose publications, slot and subscription of a way back are in use. */
export function runsInReturn(wayBacks: readonly WayBack[]): Set<RunId> {
  return new Set(wayBacks.filter((each) => !isOver(each)).map(({ original }) => original.run));
}

type Enter = (database: string) => Promise<Session>;

/** Opens a kept original for one session of ours: superusers need no place in its limit. */
export async function enterOriginal(session: Session, name: string, enter: Enter): Promise<Session> {
  await session.query(`ALTER DATABASE ${identifier(name)} ALLOW_CONNECTIONS true CONNECTION LIMIT 1`);
  return enter(name);
}

/** Returns the statement that closes it to logins, but not to the worker. */
export const shutStatement = (name: string) => `ALTER DATABASE ${identifier(name)} CONNECTION LIMIT 0`;

/**
 * Ends a way back: the original keeps all rows so far, and is closed like any kept original. If it is cut off, the mark is still
 * there, and it can be repeated.
 */
export async function endWayBack(
  session: Session,
  { original: { name, run, mark }, content, successor }: WayBack,
  enter: Enter,
): Promise<void> {
  await dropWayBackObjects(session, run, {
    enter,
    enterSubscriber: () => enterOriginal(session, name, enter),
  });
  if (successor !== null) await dropPublications(successor, run, enter);
  const { wayBack, ...rest } = mark;
  await inTransaction(session, [
    `ALTER DATABASE ${identifier(name)} ALLOW_CONNECTIONS false CONNECTION LIMIT ${content.connectionLimit}`,
    `COMMENT ON DATABASE ${identifier(name)} IS ${literal(formatMark(rest))}`,
  ]);
}

const SUBSCRIBERS = `
SELECT d.datname::text AS name FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid WHERE s.subname = $1`;

/**
 * Drops the subscription and the slot of a way back, in whichever databases.
 * @returns their names.
 */
export async function dropWayBackObjects(
  session: Session,
  run: RunId,
  { enter, enterSubscriber }: { readonly enter: Enter; readonly enterSubscriber?: () => Promise<Session> },
): Promise<string[]> {
  const name = wayBackName(run);
  const dropped: string[] = [];
  const [subscriber] = await session.query<{ name: string }>(SUBSCRIBERS, [name]);
  if (subscriber) {
    await withSession(enterSubscriber?.() ?? enter(subscriber.name), (inside) =>
      inTransaction(inside, endingStatements(name)),
    );
    dropped.push(`subscription ${name} in ${subscriber.name}`);
  }
  if (await dropOwnedSlot(session, { run, ownRun: true, name })) dropped.push(`replication slot ${name}`);
  return dropped;
}

async function dropPublications(database: string, run: RunId, enter: Enter): Promise<void> {
  await withSession(enter(database), (inside) => dropOwnedPublications(inside, null, { ending: run }));
}

/** Lets an original follow again, e.g. after a rollback that was cut off. A write that it cannot apply stops it once more. */
export async function resumeWayBack(session: Session, original: { name: string; run: RunId }, enter: Enter) {
  const { name, run } = original;
  await withSession(enterOriginal(session, name, enter), (inside) =>
    inside.query(`ALTER SUBSCRIPTION ${identifier(wayBackName(run))} ENABLE`),
  );
  await session.query(shutStatement(name));
}

/** Says whether a swap or rollback may be using it at this moment. */
export async function isInUse(session: Session, { original, successor }: WayBack): Promise<boolean> {
  return original.owning === 'alive' || (successor !== null && (await isBeingChanged(session, successor)));
}

/** Reads the ways back of a server. */
export async function findWayBacks(session: Session): Promise<WayBack[]> {
  return readWayBacks(session, await ownedDatabases(session, { sizes: false }));
}
