import { setTimeout as delay } from 'node:timers/promises';
import type { Script } from '../../clone/after-clone.ts';
import type { Clone } from '../../clone/method.ts';
import { SafemigrateError, sqlstateOf } from '../../errors.ts';
import { formatDuration, plural } from '../../format.ts';
import type { OnlineSection } from '../../model/report.ts';
import { inTransaction } from '../../ownership/reopen.ts';
import { rowsOfAnalyze, rowsWritten } from '../database-state.ts';
import { closeDatabase, type Fence, terminateSessions } from '../fence.ts';
import type { MaintenanceWindow, Successor } from '../maintenance-window.ts';
import type { SwapSubject } from '../rename.ts';
import { requireSameTarget } from '../successor.ts';
import { swapFailure } from '../swap-section.ts';
import { runInTransaction, runUntilShort } from './catch-up-script.ts';
import type { CloneLag } from './clone-lag.ts';
import { type WriteCounters, waitForUnfollowed } from './counters.ts';
import { drain, type Follower } from './follower.ts';
import { type Fork, readInsertLsn, requireUnchanged } from './fork.ts';
import {
  type AttemptProgress,
  MissedCutOver,
  type NeededTime,
  neededWords,
  timeOfHandOver,
  timeUntilReady,
} from './missed-cut-over.ts';
import type { OnlinePlan } from './online-plan.ts';

/** Facts and limits of a cut-over. */
export interface OnlineRun {
  readonly subject: SwapSubject;
  readonly window: MaintenanceWindow;
  readonly fork: Pick<Fork, 'inside' | 'digest' | 'readDigest' | 'properties'> & {
    readonly clone: Pick<Clone, 'database' | 'oid'>;
    /** Null: writes that the follower does not get are given up. */
    readonly counters: WriteCounters | null;
  };
  readonly plan: OnlinePlan;
  readonly follower: Follower;
  /** Called while the target is closed, before the follower is. */
  readonly beforeSealing: () => Promise<unknown>;
  /** The user's SQL that fills new columns and tables again. */
  readonly script: Script | null;
  /** For how long the target may be closed before the follower is about to take its place. */
  readonly maxCutOverMs: number;
  /** Pauses between the attempts, which are one more. */
  readonly pausesMs: readonly number[];
}

/** Both databases, closed: nothing but the exchange of their names is left. */
export interface BothClosed {
  readonly original: Fence;
  readonly successor: Omit<Successor, 'comment'>;
  readonly attempts: number;
  /** Time at which the target was closed, as performance.now() counts it. */
  readonly closedAt: number;
  /** A position in the WAL: every commit in the successor comes before it, or after the rename. */
  readonly lsn: string;
}

/** Share of the time that a drain may take right before the cut-over, while clients still write. */
const DRAINED_IN = 0.5;
const SETTLE_FOR_MS = 600_000;
const SETTLE_POLL_MS = 500;

/**
 * Closes the target, and continues only if the clone has applied everything within the time; otherwise the target is opened again and
 * it is tried later. A worker that ends in the meantime cannot come back while the target is closed.
 * @throws SafemigrateError `REFUSED` if it never happens in time, or the clone differs for another reason.
 */
export async function closeBoth(run: OnlineRun): Promise<BothClosed> {
  const { emit, signal } = run.subject;
  const most = run.pausesMs.length + 1;
  let shortest: NeededTime | undefined;
  for (let attempts = 1; ; attempts++) {
    await runUntilShort(run.follower.inside, run.script, run.maxCutOverMs);
    await settle(run);
    try {
      return { ...(await tryToClose(run)), attempts };
    } catch (error) {
      if (!(error instanceof MissedCutOver)) throw error;
      await run.window.reopen();
      const needed = error.progress ? await timeUntilReady(run, error.progress) : undefined;
      if (needed && needed.readyMs < (shortest?.readyMs ?? Number.POSITIVE_INFINITY)) shortest = needed;
      const pauseMs = run.pausesMs[attempts - 1];
      if (pauseMs === undefined)
        throw swapFailure(`${error.message}, in each of ${most} attempts${await remedy(run, shortest)}`);
      const next = `attempt ${attempts + 1} of ${most} follows in ${formatDuration(pauseMs)}`;
      emit({ type: 'notice', message: `${error.message}; the target is open again, and ${next}` });
      await delay(pauseMs, undefined, { signal });
    }
  }
}

/** Says how long the shortest attempt would have needed, and which limit would have done; nothing if that is not known. */
async function remedy(run: OnlineRun, shortest: NeededTime | undefined): Promise<string> {
  if (!shortest) return '';
  const statements = [...shortest.sequences, ...run.plan.raise];
  const handOverMs = await timeOfHandOver(run, statements, () => handedOver(run));
  return handOverMs === undefined ? '' : neededWords(shortest.readyMs + handOverMs);
}

/** Collects the costs of a cut-over, after the rename. */
export function cutOverCosts(
  { attempts, closedAt }: BothClosed,
  { closings, clients }: MaintenanceWindow,
  lag: CloneLag,
): Pick<OnlineSection, 'lag' | 'attempts' | 'cutOverAtMs' | 'cutOverClosedMs' | 'cutOverGapMs'> {
  return {
    lag: lag.points(),
    attempts,
    cutOverAtMs: lag.timeOf(closedAt),
    cutOverClosedMs: closings.at(-1)?.durationMs ?? null,
    cutOverGapMs: clients.gapMs,
  };
}

/** Collects the costs of an online swap, or a rollback, that was undone. */
export function costsSoFar(
  { closings }: MaintenanceWindow,
  lag: CloneLag,
): Pick<OnlineSection, 'lag' | 'attempts'> {
  const attempts = closings.filter(({ purpose }) => purpose === 'cut-over').length;
  return { lag: lag.points(), attempts: attempts === 0 ? null : attempts };
}

/** Waits for a moment in which the clone follows closely, and no transaction writes for long, which would be lost. */
async function settle({ subject, follower, fork, maxCutOverMs }: OnlineRun): Promise<void> {
  const { control, signal } = subject;
  const deadline = performance.now() + SETTLE_FOR_MS;
  for (;;) {
    const spentMs = await drain(control, follower, { timeoutMs: SETTLE_FOR_MS, signal });
    const [longest] = await fork.inside.query<{ who: string }>(LONG_TRANSACTIONS);
    if (spentMs !== undefined && spentMs <= maxCutOverMs * DRAINED_IN && !longest) return;
    if (performance.now() > deadline) {
      const why = longest ? `a transaction writes for long: ${longest.who}` : 'the clone is always behind';
      throw swapFailure(`there was no moment for the cut-over in ${formatDuration(SETTLE_FOR_MS)}: ${why}`);
    }
    await delay(SETTLE_POLL_MS, undefined, { signal });
  }
}

const LONG_TRANSACTIONS = `
SELECT format('process %s of %s, since %s', pid, usename, xact_start) AS who FROM pg_stat_activity
 WHERE datname = current_database() AND backend_xid IS NOT NULL AND xact_start < now() - interval '2 seconds'
 ORDER BY xact_start LIMIT 1`;

async function tryToClose(run: OnlineRun): Promise<Omit<BothClosed, 'attempts'>> {
  const { subject, window, fork, plan, follower, maxCutOverMs } = run;
  const { control, signal, target } = subject;
  await window.pausePoolers().catch((error: unknown) => {
    throw error instanceof SafemigrateError && error.code === 'REFUSED'
      ? new MissedCutOver(error.message, null)
      : error;
  });
  const closedAt = performance.now();
  const original = await window.close('cut-over', { pids: [fork.inside.pid], slot: follower.name });
  // No session can write in the target any more, so it is read while the follower gets the last writes.
  const reading = readClosed(run);
  // A failure counts where it is awaited. If the time is over before, the next attempt reads it all again.
  const read = reading
    .then(({ sequences }) => ({ readAt: performance.now(), sequences }))
    .catch(() => undefined);
  // PostgreSQL 14 counts a second late, if tables are not followed: that is longer than most limits.
  const progress: AttemptProgress = { closedAt, countedMs: 0, reading: read };
  const leftMs = () => maxCutOverMs + progress.countedMs - (performance.now() - closedAt);
  const late = () =>
    new MissedCutOver(
      `the cut-over would have taken longer than ${formatDuration(maxCutOverMs)} (--limit cut-over)${checksOf(plan)}`,
      progress,
    );
  const drained = await window.step('drain', () =>
    drain(control, follower, { timeoutMs: leftMs(), signal, closed: true }),
  );
  if (drained === undefined) throw late();
  progress.drainedAt = performance.now();
  await window.step('hand over', async () => {
    const same = requireSameTarget(control, target.database.oid, fork.properties);
    const [{ sequences, countedMs }] = await Promise.all([reading, same]);
    progress.countedMs = countedMs;
    await handOver(run, sequences, leftMs, late);
  });
  void window.callWitness();
  const successor = await window.step('close both', () => seal(run));
  return { original, successor, closedAt, lsn: await readInsertLsn(control) };
}

/**
 * Reads the closed target.
 * @returns statements that give the follower its sequences' values, and the time for which the counters were waited for.
 * @throws SafemigrateError `REFUSED` if something happened in it that is not replicated.
 */
async function readClosed(run: OnlineRun): Promise<{ sequences: string[]; countedMs: number }> {
  const { fork, plan, subject } = run;
  const startedAt = performance.now();
  if (fork.counters) await waitForUnfollowed(fork.counters, plan, subject.target.server.versionNum);
  const countedMs = performance.now() - startedAt;
  const sequences = await sequenceStatements(run);
  await requireUnchanged(fork, plan);
  return { sequences, countedMs };
}

/** Checks of the cut-over that read whole tables. */
function checksOf({ newForeignKeys }: OnlinePlan): string {
  const names = newForeignKeys.map(({ name }) => name).join(', ');
  return names === '' ? '' : `, since it checks all rows for the new foreign keys: ${names}`;
}

/** Copies the values of sequences to the follower, checks new foreign keys, and ends its following, in one transaction. */
async function handOver(
  run: OnlineRun,
  sequences: readonly string[],
  leftMs: () => number,
  late: () => MissedCutOver,
): Promise<void> {
  const { follower, plan, subject } = run;
  const timeoutMs = Math.floor(leftMs());
  if (timeoutMs <= 0) throw late();
  const limited = [`SET LOCAL statement_timeout = ${timeoutMs}`, ...sequences, ...plan.raise];
  try {
    await inTransaction(
      follower.inside,
      limited,
      async () => {
        await handedOver(run);
        await follower.inside.query('SET LOCAL statement_timeout = 0');
        if (leftMs() <= 0) throw late();
        await endWorker(run);
        for (const statement of follower.ending) await follower.inside.query(statement);
      },
      timeoutMs,
    );
  } catch (error) {
    const outOfTime =
      sqlstateOf(error) === QUERY_CANCELED || (error instanceof SafemigrateError && error.code === 'STALL');
    subject.signal.throwIfAborted();
    throw outOfTime ? late() : error;
  }
}

/** The part of the hand-over that takes its time: checks, the user's SQL, and the names that the command has given. */
async function handedOver(run: OnlineRun): Promise<void> {
  const { follower, plan, script } = run;
  await requireNoOrphans(run);
  if (script) await runInTransaction(follower.inside, script);
  for (const statement of plan.after) await follower.inside.query(statement);
}

const WORKERS = `SELECT pg_terminate_backend(pid) FROM pg_stat_subscription WHERE subname = $1 AND pid IS NOT NULL`;

/** Ends the worker of the subscription. DROP SUBSCRIPTION does so as well, but looks every 10 ms only if it has ended. */
async function endWorker({ subject: { control }, follower: { name } }: OnlineRun): Promise<void> {
  try {
    await control.query(WORKERS, [name]);
  } catch (error) {
    // The role may not: DROP SUBSCRIPTION ends it.
    if (sqlstateOf(error) === undefined) throw error;
  }
}

const QUERY_CANCELED = '57014';

/** Statements that give the clone's sequences the values of the target's. */
async function sequenceStatements({ fork, plan: { sequences } }: OnlineRun): Promise<string[]> {
  if (sequences.length === 0) return [];
  const values = await fork.inside.query<{ at: number; value: string; called: boolean }>(
    sequences
      .map(
        ({ inTarget }, at) =>
          `SELECT ${at} AS at, last_value::text AS value, is_called AS called FROM ${inTarget}`,
      )
      .join(' UNION ALL '),
  );
  // By its OID: its name may be another one in the clone.
  const set = values.map(
    ({ at, value, called }) => `setval(${sequences[at]?.oid}::regclass, ${value}, ${called})`,
  );
  return [`SELECT ${set.join(', ')}`];
}

/** @throws SafemigrateError `REFUSED` if production wrote rows that a new foreign key forbids: the subscription does not check it. */
export async function requireNoOrphans({
  plan,
  follower,
}: Pick<OnlineRun, 'plan' | 'follower'>): Promise<void> {
  for (const { name, orphans } of plan.newForeignKeys) {
    const [row] = await follower.inside.query<{ orphans: string }>(orphans);
    const count = Number(row?.orphans);
    if (count > 0)
      throw swapFailure(
        `the foreign key ${name} is violated by ${plural(count, 'row')} that production wrote`,
      );
  }
}

/** Ends the last sessions in both databases, and closes the clone. */
async function seal({ subject, fork, follower, beforeSealing }: OnlineRun): Promise<BothClosed['successor']> {
  const { control, target, signal } = subject;
  const { database, oid } = fork.clone;
  const counts = target.server.versionNum >= COUNTS_AT_ONCE_SINCE;
  const [ofAnalyze] = await Promise.all([rowsOfAnalyze(follower.inside), beforeSealing()]);
  // They end while the clone is closed, which waits for them.
  const [fence] = await Promise.all([
    closeDatabase(control, { database, oid }, null, signal),
    fork.inside.close(),
    follower.inside.close(),
  ]);
  await terminateSessions(control, { database: target.database.name, oid: target.database.oid }, signal);
  const written = await rowsWritten(control, oid, ofAnalyze);
  return { fence, written: { ...written, counted: written.counted && counts } };
}

/** Version 14 counts half a second late, for which no client waits here: a rollback then does not know the number of writes. */
const COUNTS_AT_ONCE_SINCE = 150000;
