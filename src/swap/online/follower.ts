import { setTimeout as delay } from 'node:timers/promises';
import { openInClone } from '../../clone/own-sessions.ts';
import { endingStatements, replicationName } from '../../ownership/owned-replication.ts';
import { inTransaction } from '../../ownership/reopen.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { Scope } from '../../scope.ts';
import type { SwapSubject } from '../rename.ts';
import { swapFailure } from '../swap-section.ts';
import { behindSql, type CloneLag } from './clone-lag.ts';
import type { Fork } from './fork.ts';
import type { OnlinePlan } from './online-plan.ts';
import { createSubscription, type OwnConnection, withoutLogin } from './own-connection.ts';

const DISABLE_ON_ERROR_SINCE = 150000;

/** The progress of the apply is in the same WAL as its rows, so that an asynchronous commit loses nothing. */
const OPTIONS =
  'create_slot = false, copy_data = false, enabled = false, synchronous_commit = off, streaming = off';

/** A database that applies all writes in the target: the migrated clone, or for a rollback the original. */
export interface Follower {
  readonly called: 'clone' | 'original';
  /** In that database. */
  readonly inside: Session;
  /** Name of its subscription, and of the slot in the target. */
  readonly name: string;
  /** Statements after which it does not follow any more. */
  readonly ending: readonly string[];
  /** Gets a sample whenever its state is read. */
  readonly lag?: CloneLag;
}

/**
 * Lets the migrated clone follow the target from the fork on, by a subscription of the server's own. If the clone is dropped, the
 * subscription goes with it.
 */
export async function startFollowing(
  subject: SwapSubject,
  scope: Scope,
  fork: Fork,
  plan: OnlinePlan,
  way: OwnConnection,
  lag: CloneLag,
): Promise<Follower> {
  const { run, target } = subject;
  const { versionNum } = target.server;
  const { superuser } = target.role;
  const context = { ...subject, audit: withoutLogin(subject.audit) };
  const inside = await scope.own(
    'session in the clone',
    () => openInClone({ clone: fork.clone, context }, { readOnly: false, statementTimeoutMs: 0 }),
    async (session) => session?.close(),
  );
  await inTransaction(inside, plan.before);
  const name = replicationName(run);
  await createSubscription(inside, { name, way, options: followingOptions(versionNum), superuser });
  // The clone has all commits before the fork.
  await fork.inside.query('SELECT pg_replication_slot_advance($1, $2::pg_lsn)', [name, fork.lsn]);
  await inside.query(`ALTER SUBSCRIPTION ${identifier(name)} ENABLE`);
  return { called: 'clone', inside, name, ending: endingStatements(name), lag };
}

/** Options of a subscription that follows from a position in the WAL. */
export function followingOptions(versionNum: number): string {
  return `${OPTIONS}${versionNum >= DISABLE_ON_ERROR_SINCE ? ', disable_on_error = true' : ''}`;
}

/** Writes a record to the WAL and flushes it: a commit without one, and a transaction without writes, are flushed later. */
const EMIT = `
SELECT set_config('synchronous_commit', 'local', true), pg_logical_emit_message(true, 'safemigrate', '')::text AS lsn`;

/**
 * `latest_end_lsn` is set once all that was sent before it is applied; `received_lsn` would be too early. Both are of the worker that
 * runs now: `confirmed` shows whether the last one made progress.
 */
const STATE = `
SELECT s.subenabled AS enabled, t.pid, r.confirmed_flush_lsn::text AS confirmed,
       coalesce(t.latest_end_lsn >= $2::pg_lsn, false) AS applied,
       pg_wal_lsn_diff($2::pg_lsn, t.latest_end_lsn)::float8 AS "behindBytes",
       ${behindSql('$3')} AS "lagBytes"
  FROM pg_subscription s LEFT JOIN pg_stat_subscription t ON t.subid = s.oid AND t.relid IS NULL
  LEFT JOIN pg_replication_slots r ON r.slot_name = s.subname
 WHERE s.subname = $1`;

interface ApplyState {
  readonly enabled: boolean;
  readonly pid: number | null;
  readonly confirmed: string | null;
  readonly applied: boolean;
  readonly behindBytes: number | null;
  readonly lagBytes: number | null;
}

/** Without progress in between: how often its subscription may be disabled by an error, and for how long it may have no worker. */
const MOST_DISABLED = 3;
/** PostgreSQL 14 starts a worker that failed again every 5 s, for ever. */
const MOST_ABSENT_MS = 15_000;
const POLL_MS = 3;
const SLOW_POLL_MS = 100;

/**
 * Waits until the follower has applied all that was committed in the target so far.
 * @param session in another database of the server.
 * @param options.closed the target is closed, so a worker that ended cannot come back. That is no sign that it cannot apply.
 * @returns the time that it took in milliseconds; undefined if it did not within the time.
 * @throws SafemigrateError `REFUSED` if it cannot apply it.
 */
export async function drain(
  session: Session,
  { name, inside, called, lag }: Follower,
  {
    timeoutMs,
    signal,
    onBehind,
    closed = false,
  }: { timeoutMs: number; signal: AbortSignal; onBehind?: (bytes: number) => void; closed?: boolean },
): Promise<number | undefined> {
  const startedAt = performance.now();
  const [message] = await session.query<{ lsn: string }>(EMIT);
  let [disabled, absentMs, lookedAt] = [0, 0, startedAt];
  let confirmed: string | null = null;
  for (;;) {
    signal.throwIfAborted();
    const [state] = await session.query<ApplyState>(STATE, [name, message?.lsn, lag?.from ?? null]);
    if (!state) throw cannotApply(called);
    if (state.lagBytes !== null) lag?.add(state.lagBytes);
    if (state.applied) return performance.now() - startedAt;
    if (state.confirmed !== confirmed) [disabled, absentMs] = [0, 0];
    if (!state.enabled) disabled++;
    else if (state.pid === null) absentMs += performance.now() - lookedAt;
    if (!closed && (disabled > MOST_DISABLED || absentMs > MOST_ABSENT_MS)) throw cannotApply(called);
    // A connection that breaks disables it as well (disable_on_error), so it gets another try.
    if (!state.enabled) await inside.query(`ALTER SUBSCRIPTION ${identifier(name)} ENABLE`);
    [confirmed, lookedAt] = [state.confirmed, performance.now()];
    const spentMs = performance.now() - startedAt;
    if (spentMs > timeoutMs) return undefined;
    if (state.behindBytes !== null) onBehind?.(state.behindBytes);
    await delay(spentMs < 1_000 ? POLL_MS : SLOW_POLL_MS);
  }
}

function cannotApply(called: Follower['called']): Error {
  return swapFailure(
    `the ${called} could not apply what production wrote, e.g. rows that one of its constraints forbids; the server's log has the error of the logical replication worker`,
  );
}
