import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import { formatBytes, formatDuration } from '../../format.ts';
import { identifier } from '../../sql.ts';
import { transactionsPerSecond } from '../../target/activity.ts';
import type { Session } from '../../target/session.ts';
import { openMaintenanceSession } from '../../upkeep/claim.ts';
import { birthLimit } from '../../upkeep/run-id.ts';
import type { CloneContext, Possible } from '../method.ts';
import { rankHere } from './assess.ts';
import type { Strategy } from './estimate.ts';
import { reportProgress } from './progress.ts';
import {
  clientSessions,
  endingStatement,
  endSessions,
  pause,
  sessionsInTheWay,
  waitForSessions,
} from './sessions.ts';

export interface Made {
  readonly strategy: Strategy;
  /** Duration of the successful CREATE DATABASE, in milliseconds: so long newcomers to the target waited. */
  readonly durationMs: number;
  /** Sessions on the target that were ended for it. */
  readonly ended: number;
  /** What the first choice met, where another strategy had to be taken. */
  readonly notice?: string;
}

/**
 * Makes the database, half-born: marked by its name, its connection limit and its closed door in the very statement,
 * so that there is no moment at which something exists that nobody can judge.
 *
 * While CREATE DATABASE waits for other sessions to go and while it copies, it holds a lock on the source, behind
 * which newcomers wait. That closes the race against clients that reconnect: their sessions are ended while it waits.
 */
export async function createFromTemplate(
  context: CloneContext,
  assessment: Possible,
  name: string,
): Promise<Made> {
  const first = assessment.strategy as Strategy;
  try {
    return await createBy(context, name, first);
  } catch (error) {
    if (first !== 'clone' || !saysCannotClone(error, context.signal)) throw error;
    const [next] = rankHere(context, false);
    if (!next) throw error;
    const notice = `cloning files did not work here (${messageOf(error)})`;
    context.emit({ type: 'notice', message: `${notice}; taking ${next.strategy} instead` });
    refuseLongStall(context, next.milliseconds, await isBusy(context, next.milliseconds));
    return { ...(await createBy(context, name, next.strategy)), notice };
  }
}

/** The statements of one attempt, in order. */
function creatingStatements(context: CloneContext, name: string, strategy: Strategy): string[] {
  const { target, run } = context;
  const withStrategy = target.server.versionNum >= 150000;
  const clause = withStrategy ? ` STRATEGY ${strategy === 'wal_log' ? 'wal_log' : 'file_copy'}` : '';
  const create =
    `CREATE DATABASE ${identifier(name)} TEMPLATE ${identifier(target.database.name)}${clause}` +
    ` ALLOW_CONNECTIONS false CONNECTION LIMIT ${birthLimit(run)}`;
  if (target.server.versionNum < 180000 || strategy === 'wal_log') return [create];
  return [`SET file_copy_method = ${strategy}`, create];
}

/** What one attempt would send, with its time limit and the ending of sessions, in order. */
export async function plannedStatements(
  context: CloneContext,
  name: string,
  strategy: Strategy,
): Promise<string[]> {
  const { disconnect } = context.limits;
  const statements = creatingStatements(context, name, strategy);
  return [
    ...statements.slice(0, -1),
    setTimeLimit(await timeLimit(context, strategy)),
    ...statements.slice(-1),
    ...(disconnect === 'never' ? [] : [endingStatement(disconnect)]),
    setTimeLimit(0),
  ];
}

async function createBy(context: CloneContext, name: string, strategy: Strategy): Promise<Made> {
  const deadline = Date.now() + context.limits.waitMs;
  for (;;) {
    await waitForSessions(context, deadline);
    const limitMs = await timeLimit(context, strategy);
    try {
      return { strategy, ...(await attempt(context, name, strategy, limitMs)) };
    } catch (error) {
      if (sqlstateOf(error) === '57014' && !context.signal.aborted && strategy !== 'clone')
        throw stalled(context, limitMs);
      if (sqlstateOf(error) !== '55006') throw error;
      if (Date.now() >= deadline) {
        throw sessionsInTheWay(context, await clientSessions(context.control, context.target.database.oid));
      }
      await pause(100, context.signal);
    }
  }
}

async function attempt(
  context: CloneContext,
  name: string,
  strategy: Strategy,
  limitMs: number,
): Promise<Pick<Made, 'durationMs' | 'ended'>> {
  const { control } = context;
  const statements = creatingStatements(context, name, strategy);
  for (const statement of statements.slice(0, -1)) await control.query(statement);
  await control.query(setTimeLimit(limitMs));
  const started = performance.now();
  const creating = control.query(statements.at(-1) ?? '');
  const companion = accompany(context, strategy, creating);
  try {
    await creating;
    const durationMs = performance.now() - started;
    return { durationMs, ended: await companion };
  } finally {
    await companion;
    await control.query(setTimeLimit(0)).catch(() => {});
  }
}

function setTimeLimit(milliseconds: number): string {
  return `SET statement_timeout = ${Math.round(milliseconds)}`;
}

/** Ends sessions and reports progress over a second connection, for as long as the statement runs; counts the ended. */
async function accompany(
  context: CloneContext,
  strategy: Strategy,
  creating: Promise<unknown>,
): Promise<number> {
  let running = true;
  let ended = 0;
  const settled = creating.then(
    () => (running = false),
    () => (running = false),
  );
  const needed =
    context.limits.disconnect !== 'never' || context.target.database.sizeBytes > PROGRESS_ABOVE_BYTES;
  if (!needed) {
    await settled;
    return ended;
  }
  let companion: Session | undefined;
  try {
    companion = await openMaintenanceSession(context.target, {
      run: context.run,
      purpose: 'companion',
      audit: context.audit,
    });
    const progress = await reportProgress(context, companion, strategy);
    while (running) {
      ended += await endSessions(companion, context);
      await progress();
      await Promise.race([settled, pause(100, context.signal)]);
    }
  } catch (error) {
    // Without the right to end sessions the statement fails by itself, and says who is in the way.
    if (running && !context.signal.aborted) context.emit({ type: 'notice', message: messageOf(error) });
  } finally {
    await settled;
    await companion?.close();
  }
  return ended;
}

/** Below this no copy takes long enough to be watched. */
const PROGRESS_ABOVE_BYTES = 256 * 1024 * 1024;

/**
 * How long the statement may take: where the target is in use, newcomers wait no longer than --max-stall. An attempt
 * to clone files is limited anyway, since some file systems accept it and copy in full.
 */
async function timeLimit(context: CloneContext, strategy: Strategy): Promise<number> {
  const { maxStallMs } = context.limits;
  const expected =
    rankHere(context, true).find((estimate) => estimate.strategy === strategy)?.milliseconds ?? 0;
  const busy = await isBusy(context, expected);
  refuseLongStall(context, expected, busy);
  // CREATE DATABASE itself waits up to 5 s for sessions to go; that is part of the statement's time.
  const cloneLimit = 5_000 + Math.max(5_000, expected * 8);
  if (strategy === 'clone') return busy ? Math.min(cloneLimit, maxStallMs) : cloneLimit;
  return busy ? maxStallMs : 0;
}

function refuseLongStall(context: CloneContext, expectedMs: number, busy: boolean): void {
  const { maxStallMs } = context.limits;
  if (!busy || expectedMs <= maxStallMs) return;
  const { database } = context.target;
  throw new SafemigrateError(
    'STALL',
    `while ${database.name} (${formatBytes(database.sizeBytes)}) is copied, new connections to it wait: about ` +
      `${formatDuration(expectedMs)}, and --max-stall allows ${formatDuration(maxStallMs)}`,
    {
      hint:
        'The target was not touched. Rehearse when it is not in use, allow it with --max-stall DURATION, rehearse ' +
        'against a copy on another server, or use PostgreSQL 18 on a file system that clones files (XFS, btrfs, ZFS).',
    },
  );
}

function stalled(context: CloneContext, limitMs: number): SafemigrateError {
  return new SafemigrateError(
    'STALL',
    `the copy took longer than ${formatDuration(limitMs)} and was ended, so that new connections to ` +
      `${context.target.database.name} would not wait longer`,
    {
      sqlstate: '57014',
      hint: 'The target was not changed. Allow it with --max-stall DURATION, or rehearse when it is not in use.',
    },
  );
}

/** Somebody uses the target: is connected now, or, before a statement that would be felt, comes within a moment. */
async function isBusy({ control, target }: CloneContext, expectedMs: number): Promise<boolean> {
  const { oid } = target.database;
  if ((await clientSessions(control, oid)).length > 0) return true;
  return expectedMs >= FELT_MS && (await transactionsPerSecond(control, oid, 250)) > 0;
}

const FELT_MS = 1_000;

/** The file system said no (class 58, feature not supported), or the limit for a clone passed, so it was a copy. */
function saysCannotClone(error: unknown, signal: AbortSignal): boolean {
  const sqlstate = sqlstateOf(error) ?? '';
  if (signal.aborted) return false;
  return sqlstate.startsWith('58') || ['0A000', '57014', '22023', '42809', 'XX000'].includes(sqlstate);
}
