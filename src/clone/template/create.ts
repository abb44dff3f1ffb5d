import type { ActivitySession } from '../../database/activity.ts';
import { type ErrorCode, messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import { openMaintenanceSession } from '../../ownership/control-session.ts';
import { birthLimit } from '../../ownership/run-id.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier, literal } from '../../postgres/sql/quote.ts';
import type { CloneContext, Possible } from '../method.ts';
import { rankHere } from './assess-template.ts';
import { reportProgress } from './copy-progress.ts';
import type { TemplateStrategy } from './estimate-template.ts';
import {
  clientSessions,
  endingStatement,
  endSessions,
  pauseBetweenTries,
  sessionsInTheWay,
  waitForSessions,
} from './sessions.ts';
import { stalled, timeLimit } from './stall.ts';

export interface Made {
  readonly strategy: TemplateStrategy;
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
  try {
    return await createOrFallBack(context, assessment.strategy as TemplateStrategy, name);
  } catch (error) {
    throw sqlstateOf(error) === undefined ? error : failure(context, error);
  }
}

async function createOrFallBack(context: CloneContext, first: TemplateStrategy, name: string): Promise<Made> {
  try {
    return await createBy(context, name, first);
  } catch (error) {
    if (first !== 'clone' || !saysCannotClone(error, context.signal)) throw error;
    const [next] = rankHere(context, false);
    if (!next) throw error;
    const notice = `cloning files did not work here (${messageOf(error)})`;
    context.emit({ type: 'notice', message: `${notice}; taking ${next.strategy} instead` });
    return { ...(await createBy(context, name, next.strategy)), notice };
  }
}

/** The statements of one attempt, in order. */
async function creatingStatements(
  context: CloneContext,
  name: string,
  strategy: TemplateStrategy,
): Promise<string[]> {
  const { target, run } = context;
  const withStrategy = target.server.versionNum >= 150000;
  const clause = withStrategy ? ` STRATEGY ${strategy === 'wal_log' ? 'wal_log' : 'file_copy'}` : '';
  const create =
    `CREATE DATABASE ${identifier(name)} TEMPLATE ${identifier(target.database.name)}${clause}` +
    (withStrategy ? await collationClause(context) : '') +
    ` ALLOW_CONNECTIONS false CONNECTION LIMIT ${birthLimit(run)}`;
  if (target.server.versionNum < 180000 || strategy === 'wal_log') return [create];
  return [`SET file_copy_method = ${strategy}`, create];
}

const COLLATION_VERSION = `
SELECT datcollversion AS version FROM pg_database
 WHERE oid = $1 AND datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid)`;

/**
 * A source whose collation changed with the operating system is refused as a template, unless the clone is told to
 * claim the old version too. That is what a faithful clone does: its indexes are as they are in the target.
 */
async function collationClause({ control, target }: CloneContext): Promise<string> {
  const [row] = await control.query<{ version: string | null }>(COLLATION_VERSION, [target.database.oid]);
  return row?.version == null ? '' : ` COLLATION_VERSION ${literal(row.version)}`;
}

/** What one attempt would send, with its time limit and the ending of sessions, in order. */
export async function plannedStatements(
  context: CloneContext,
  name: string,
  strategy: TemplateStrategy,
): Promise<string[]> {
  const { disconnect } = context.limits;
  const statements = await creatingStatements(context, name, strategy);
  const present = await clientSessions(context.control, context.target.database.oid);
  return [
    ...statements.slice(0, -1),
    setTimeLimit(await timeLimit(context, strategy, present)),
    ...statements.slice(-1),
    ...(disconnect === 'never' ? [] : [endingStatement(disconnect)]),
    setTimeLimit(0),
  ];
}

async function createBy(context: CloneContext, name: string, strategy: TemplateStrategy): Promise<Made> {
  const { limits, signal, control, target } = context;
  const deadline = Date.now() + limits.waitMs;
  const tally = { ended: 0 };
  for (;;) {
    await waitForSessions(context, deadline);
    const present = await clientSessions(control, target.database.oid);
    const limitMs = await timeLimit(context, strategy, present);
    try {
      return await attempt(context, name, strategy, limitMs, tally);
    } catch (error) {
      if (signal.aborted) throw error;
      const timedOut = sqlstateOf(error) === QUERY_CANCELED && limitMs > 0;
      // CREATE DATABASE itself waits 5 s for sessions to go: a shorter time limit meets their presence first.
      const inUse = sqlstateOf(error) === OBJECT_IN_USE || (timedOut && (await haveStayed(context, present)));
      if (!inUse) throw timedOut && strategy !== 'clone' ? stalled(context, limitMs) : error;
      if (Date.now() >= deadline) throw await sessionsInTheWay(context);
      await pauseBetweenTries(100, signal);
    }
  }
}

const OBJECT_IN_USE = '55006';
const QUERY_CANCELED = '57014';

/** Who came later has waited behind the lock, and is not the reason. */
async function haveStayed(context: CloneContext, before: readonly ActivitySession[]): Promise<boolean> {
  const now = await clientSessions(context.control, context.target.database.oid);
  return now.some(({ pid }) => before.some((session) => session.pid === pid));
}

async function attempt(
  context: CloneContext,
  name: string,
  strategy: TemplateStrategy,
  limitMs: number,
  tally: { ended: number },
): Promise<Made> {
  const { control, target } = context;
  const statements = await creatingStatements(context, name, strategy);
  for (const statement of statements.slice(0, -1)) await control.query(statement);
  await control.query(setTimeLimit(limitMs));
  // Where the role is let into no other database a companion would wait behind the lock: then once, beforehand.
  const alone = control.database === target.database.name;
  if (alone) tally.ended += await endSessions(control, context);
  // A cancel that came too late for the statement before must not be forgotten.
  context.signal.throwIfAborted();
  const started = performance.now();
  const creating = control.query(statements.at(-1) ?? '');
  const companion = alone ? undefined : accompany(context, strategy, creating, tally);
  try {
    await creating;
    const durationMs = performance.now() - started;
    await companion;
    return { strategy, durationMs, ended: tally.ended };
  } finally {
    await companion;
    await control.query(setTimeLimit(0)).catch(() => {});
  }
}

function setTimeLimit(milliseconds: number): string {
  return `SET statement_timeout = ${Math.ceil(milliseconds)}`;
}

/** Ends sessions and reports progress over a second connection, for as long as the statement runs. */
async function accompany(
  context: CloneContext,
  strategy: TemplateStrategy,
  creating: Promise<unknown>,
  tally: { ended: number },
): Promise<void> {
  let running = true;
  const settled = creating.then(
    () => (running = false),
    () => (running = false),
  );
  const needed =
    context.limits.disconnect !== 'never' || context.target.database.sizeBytes > PROGRESS_ABOVE_BYTES;
  if (!needed) {
    await settled;
    return;
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
      tally.ended += await endSessions(companion, context);
      await progress();
      await Promise.race([settled, pauseBetweenTries(100, context.signal)]);
    }
  } catch (error) {
    // Without the right to end sessions the statement fails by itself, and says who is in the way.
    if (running && !context.signal.aborted) context.emit({ type: 'notice', message: messageOf(error) });
  } finally {
    await settled;
    await companion?.close();
  }
}

/** Below this no copy takes long enough to be watched. */
const PROGRESS_ABOVE_BYTES = 256 * 1024 * 1024;

/** The file system said no (class 58, feature not supported), or the limit for a clone passed, so it was a copy. */
function saysCannotClone(error: unknown, signal: AbortSignal): boolean {
  const sqlstate = sqlstateOf(error) ?? '';
  if (signal.aborted) return false;
  return sqlstate.startsWith('58') || ['0A000', '57014', '22023', '42809', 'XX000'].includes(sqlstate);
}

function failure({ target }: CloneContext, error: unknown): SafemigrateError {
  const { name } = target.database;
  const [code, hint] = FAILURES[sqlstateOf(error) ?? ''] ?? ['CLONE', 'The target was not touched.'];
  return new SafemigrateError(code, `${name} could not be cloned: ${messageOf(error)}`, {
    cause: error,
    hint,
  });
}

const FAILURES: Readonly<Record<string, readonly [ErrorCode, hint: string]>> = {
  '42501': ['PRIVILEGE', 'The target was not touched. Cloning needs CREATEDB, and the rights of its owner.'],
  '53100': ['DISK', "The target was not touched. Free some space on the server's disk."],
};
