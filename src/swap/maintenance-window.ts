import { setTimeout as delay } from 'node:timers/promises';
import { readServerIdentity } from '../database/server-identity.ts';
import type { Target } from '../database/target.ts';
import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import type { Emit } from '../events.ts';
import { formatDuration } from '../format.ts';
import type { SwapSection } from '../model/report.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import { openingStatements } from '../ownership/database-access.ts';
import { formatMark, type Mark, ownedName } from '../ownership/mark.ts';
import { runIsAlive } from '../ownership/owned.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Scope } from '../scope.ts';
import { closeDatabase, type Fence } from './fence.ts';
import { type ClosedTarget, LOCK_MS, openAgain, sessionOnPrimary } from './open-again.ts';
import { nameConsole, type PausedPooler, pausePooler } from './pgbouncer.ts';
import { type DatabaseRename, renameInto, wasRenamed } from './rename.ts';
import { startReopenAgent } from './reopen-agent.ts';
import type { DatabaseWrites } from './writes.ts';

/** A target that is to be exchanged, and the session that holds the run's lock, in another database. */
export interface SwappedIn {
  readonly target: Target;
  /** With every host that the user named: after a failover the target is on another one. */
  readonly settings: ConnectionSettings;
  readonly control: Session;
  readonly lockDatabaseOid: number;
  readonly run: RunId;
  readonly emit: Emit;
  readonly audit: Audit;
  /** Ends the run, for what does not wait for it. */
  readonly fail: (reason: SafemigrateError) => void;
  readonly signal: AbortSignal;
}

export interface ClosingOptions {
  /** Consoles of PgBouncers whose clients are to wait meanwhile. */
  readonly pgbouncer: readonly ConnectionSettings[];
  /** For how long nobody may be able to connect to the target; beyond it everything is undone. */
  readonly maxClosedMs: number;
  /** For how long the original is meant to be kept. */
  readonly keepOriginalMs?: number;
}

/** What takes the target's place: closed, empty, and as it should be. */
export interface Successor {
  readonly fence: Fence;
  /** The comment that it gets under the target's name. */
  readonly comment: string | null;
  /** What has been written in it so far (swap/writes.ts). */
  readonly written: DatabaseWrites;
}

export type Timed = <T>(step: string, work: () => Promise<T>) => Promise<T>;

/** For the backend of a lost connection to end. */
const BACKEND_MS = 60_000;

const COMMENT = "SELECT shobj_description(oid, 'pg_database') AS comment FROM pg_database WHERE oid = $1";

/**
 * Closes the target, lets its successor be made ready, and gives that the target's name. Whatever fails before the COMMIT
 * of the renames is undone; after it there is nothing to undo.
 *
 * | step | what it leaves if we die right after it, and who repairs that |
 * |---|---|
 * | guard | a process that ends with our input |
 * | pause | clients of PgBouncer that wait: the guard lets them go on, else RESUME on its console |
 * | close | the target closed, with our mark: the guard, `clean`, and every later run open it |
 * | the successor | what its maker leaves |
 * | rename | the successor as the target, open; the original under its new name, marked |
 *
 * @returns `undone` where it was not to be, with the reason.
 * @throws SafemigrateError `TARGET_CHANGED` where it could not be undone, `INTERRUPTED` after it was.
 */
export async function whileClosed(
  it: SwappedIn,
  scope: Scope,
  { pgbouncer, maxClosedMs, keepOriginalMs }: ClosingOptions,
  ready: (original: Fence, comment: string | null, timed: Timed) => Promise<Successor>,
): Promise<SwapSection> {
  const { target, control, run, emit, audit, signal } = it;
  const { name, oid } = target.database;
  const steps: SwapSection['steps'] = [];
  const timed: Timed = async (step, work) => {
    const started = performance.now();
    const result = await work();
    steps.push({ name: step, durationMs: performance.now() - started });
    return result;
  };
  const [row] = await control.query<{ comment: string | null }>(COMMENT, [oid]);
  const comment = row?.comment ?? null;
  const mark = (
    more: Pick<Mark, 'state' | 'at' | 'successor' | 'writes' | 'countedSince' | 'keepUntil' | 'pgbouncer'>,
  ) =>
    formatMark({
      ...{ version: 1, run, role: 'original', targetOid: oid, lockDatabaseOid: it.lockDatabaseOid },
      ...(comment === null ? {} : { comment }),
      ...more,
    });
  const byHand = `${openingStatements(name, comment).join('; ')};`;
  emit({
    type: 'notice',
    message: `should all this die, \`safemigrate clean\` opens ${name} again, or: ${byHand}`,
  });

  let state: 'open' | 'closed' | 'swapped' = 'open';
  const port = target.settings.hosts[0]?.port ?? 5432;
  const server = await readServerIdentity(control);
  const watched = { database: name, server, run, lockDatabaseOid: it.lockDatabaseOid, pgbouncer, port };
  const guard = await scope.own(
    'guard of the target',
    () => startReopenAgent({ settings: it.settings, ...watched }),
    // With the target closed it goes on after our end.
    async (started) => (state === 'closed' ? undefined : started?.dismiss()),
  );
  // Before anybody has to wait: it may take its time.
  if (target.role.mayCheckpoint) await timed('checkpoint', () => control.query('CHECKPOINT'));
  const poolers: PausedPooler[] = [];
  for (const console of pgbouncer) {
    const pause = () => timed('pause', () => pausePooler(console, { database: name, port }));
    poolers.push(await scope.own('pause of PgBouncer', pause, async (paused) => paused?.resume()));
  }
  // At once; what fails here the scope tries again, and tells of.
  const resume = () => Promise.allSettled(poolers.map((each) => each.resume()));

  const closed: ClosedTarget = {
    settings: it.settings,
    database: { name, oid },
    comment,
    server,
    run,
    audit,
  };
  let failover: string | undefined;
  const open = async () => {
    if (state !== 'closed') return;
    failover = await openAgain(closed);
    state = 'open';
  };
  const closedAt = performance.now();
  let sessionsEnded = 0;
  const late = () =>
    undone(`the target was closed for longer than --max-stall allows (${formatDuration(maxClosedMs)})`);
  const limit = Number.isFinite(maxClosedMs) ? setTimeout(() => it.fail(late()), maxClosedMs) : undefined;
  try {
    const original = await scope.own(
      `the closed door of ${name}`,
      () => {
        state = 'closed';
        const fenced = mark({
          ...{ state: 'fenced', at: { database: name, oid } },
          ...(pgbouncer.length === 0 ? {} : { pgbouncer: pgbouncer.map(nameConsole) }),
        });
        return timed('close', () =>
          closeDatabase(control, { database: name, oid, mark: fenced, timeoutMs: LOCK_MS, signal }),
        );
      },
      open,
    );
    sessionsEnded = original.ended;
    const { fence: successor, comment: own, written } = await ready(original, comment, timed);
    // From here on only a person ends it.
    clearTimeout(limit);
    signal.throwIfAborted();
    if (performance.now() - closedAt > maxClosedMs) throw late();
    const keptAs = ownedName(name, 'before', run);
    const keepUntil =
      keepOriginalMs === undefined ? null : new Date(Date.now() + keepOriginalMs).toISOString();
    const originalMark = mark({
      ...{ state: 'renamed', at: { database: keptAs, oid }, successor: successor.oid },
      writes: String(written.rows),
      countedSince: written.since,
      ...(keepUntil === null ? {} : { keepUntil }),
    });
    const rename = { server, original, successor, keptAs, originalMark, comment: own, timeoutMs: LOCK_MS };
    await timed('rename', () => commitRename(it, closed, rename));
    state = 'swapped';
    const stallMs = performance.now() - closedAt;
    await resume();
    await guard.dismiss();
    return {
      outcome: 'swapped',
      reasons: [],
      original: keptAs,
      keepUntil,
      stallMs,
      sessionsEnded,
      steps,
    };
  } catch (error) {
    // At once: what was made meanwhile is removed afterwards, and nobody should wait for that.
    await open().catch((cause: unknown) => {
      throw stillShut(name, byHand, error, cause);
    });
    await resume();
    const ended = error instanceof SafemigrateError && ['TARGET_CHANGED', 'INTERRUPTED'].includes(error.code);
    const foreseen = error instanceof SafemigrateError || sqlstateOf(error) !== undefined;
    if (ended || !foreseen) throw error;
    const stallMs = performance.now() - closedAt;
    return {
      outcome: 'undone',
      reasons: [messageOf(error), ...(failover === undefined ? [] : [failover])],
      original: null,
      keepUntil: null,
      stallMs,
      sessionsEnded,
      steps,
    };
  } finally {
    clearTimeout(limit);
  }
}

async function commitRename(it: SwappedIn, closed: ClosedTarget, rename: DatabaseRename): Promise<void> {
  const { control, target, run, audit } = it;
  const witness = await openMaintenanceSession(target, { run, audit, purpose: 'witness' });
  try {
    await renameInto(control, witness, rename);
  } catch (error) {
    const refused = error instanceof SafemigrateError && ['REFUSED', 'STALL'].includes(error.code);
    if (refused) throw error;
    // The answer to the COMMIT may have been lost, with the connection or to a cancel that came too late.
    const session = await sessionOnPrimary(closed, 'witness');
    try {
      if (error instanceof SafemigrateError && error.code === 'LOST') await backendEnds(session, it);
      if (!(await wasRenamed(session, rename))) throw error;
    } finally {
      await session.close();
    }
  } finally {
    await witness.close();
  }
}

/** The COMMIT may still wait in it, for a synchronous standby. The lock goes with it. */
async function backendEnds(session: Session, { run, lockDatabaseOid }: SwappedIn): Promise<void> {
  const deadline = performance.now() + BACKEND_MS;
  while ((await runIsAlive(session, run, lockDatabaseOid)) && performance.now() < deadline) await delay(50);
}

export function undone(reason: string): SafemigrateError {
  return new SafemigrateError('REFUSED', `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`);
}

function stillShut(name: string, byHand: string, first: unknown, cause: unknown): SafemigrateError {
  return new SafemigrateError(
    'TARGET_CHANGED',
    `${messageOf(first).replace(/\.?$/, '.')} And ${name} could not be opened again: ${messageOf(cause)}`,
    {
      cause,
      hint: `Nobody can connect to it. A process in the background goes on trying. By hand: ${byHand}`,
    },
  );
}
