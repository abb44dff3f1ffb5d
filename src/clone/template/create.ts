import type { ActivitySession } from '../../database/activity.ts';
import { type ErrorCode, messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import { openMaintenanceSession } from '../../ownership/control-session.ts';
import { markerConnectionLimit } from '../../ownership/run-id.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier, literal } from '../../postgres/sql/quote.ts';
import type { CloneContext, Possible } from '../method.ts';
import type { TemplateStrategy } from './assess-template.ts';
import { rankHere, stalled, timeLimit } from './assess-template.ts';
import {
  clientSessions,
  endingStatement,
  endSessions,
  pauseBetweenTries,
  sessionsInTheWay,
  waitForSessions,
} from './sessions.ts';

export interface Made {
  readonly strategy: TemplateStrategy;
  /** Duration of the successful CREATE DATABASE in milliseconds, for which new connections to the target waited. */
  readonly durationMs: number;
  /** Number of sessions on the target that were terminated for it. */
  readonly ended: number;
  /** The reason for another strategy than the first choice. */
  readonly notice?: string;
}

/**
 * Creates the database, unmarked: the statement itself sets its name, its connection limit and ALLOW_CONNECTIONS false, by which
 * `clean` recognizes it at any moment.
 *
 * While CREATE DATABASE waits for other sessions to end, and while it copies, it holds a lock on the source, for which new
 * connections wait. So clients cannot reconnect after their sessions were terminated.
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

/** Lists the statements of one attempt, in order. */
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
    ` ALLOW_CONNECTIONS false CONNECTION LIMIT ${markerConnectionLimit(run)}`;
  if (target.server.versionNum < 180000 || strategy === 'wal_log') return [create];
  return [`SET file_copy_method = ${strategy}`, create];
}

const COLLATION_VERSION = `
SELECT datcollversion AS version FROM pg_database
 WHERE oid = $1 AND datcollversion IS DISTINCT FROM pg_database_collation_actual_version(oid)`;

/**
 * If the operating system's collation changed, the server refuses the source as a template unless the clone records the old
 * version, too. A faithful clone does: its indexes are the same as in the target.
 */
async function collationClause({ control, target }: CloneContext): Promise<string> {
  const [row] = await control.query<{ version: string | null }>(COLLATION_VERSION, [target.database.oid]);
  return row?.version == null ? '' : ` COLLATION_VERSION ${literal(row.version)}`;
}

/** Lists what one attempt would send, with its time limit and the termination of sessions. */
export async function plannedStatements(
  context: CloneContext,
  name: string,
  strategy: TemplateStrategy,
): Promise<string[]> {
  const { disconnect } = context.options;
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
  const { options, signal, control, target } = context;
  const deadline = performance.now() + options.waitMs;
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
      // CREATE DATABASE itself waits 5 s for sessions to end: with a shorter limit, they were the reason.
      const inUse = sqlstateOf(error) === OBJECT_IN_USE || (timedOut && (await haveStayed(context, present)));
      if (!inUse) throw timedOut && strategy !== 'clone' ? stalled(context, limitMs) : error;
      if (performance.now() >= deadline) throw await sessionsInTheWay(context);
      await pauseBetweenTries(100, signal);
    }
  }
}

const OBJECT_IN_USE = '55006';
const QUERY_CANCELED = '57014';

/** Sessions that started later have waited for the lock, and are not the reason. */
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
  // If the role can connect to no other database, a second session would wait for the lock: so terminate once, beforehand.
  const alone = control.database === target.database.name;
  if (alone) tally.ended += await endSessions(control, context);
  // A cancel that came too late for the previous statement still counts.
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

/** Terminates sessions and reports progress over a second connection while the statement runs. */
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
    context.options.disconnect !== 'never' || context.target.database.sizeBytes > PROGRESS_ABOVE_BYTES;
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
    // Without the privilege to terminate sessions the statement fails by itself, and its error names them.
    if (running && !context.signal.aborted) context.emit({ type: 'notice', message: messageOf(error) });
  } finally {
    await settled;
    await companion?.close();
  }
}

/** Smaller copies are too fast to watch. */
const PROGRESS_ABOVE_BYTES = 256 * 1024 * 1024;

/** The file system refused (class 58, feature not supported), or the time limit passed, so it was a full copy. */
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

const WAL_WRITTEN = `SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), $1)::float8 AS bytes`;
const WAL_POSITION = 'SELECT pg_current_wal_insert_lsn()::text AS position';

/** Until the statement ends the new database is not in the catalog, but superusers can see its folder. */
const FOLDERS = `SELECT name::int8 AS oid FROM pg_ls_dir('base') AS name WHERE name ~ '^[0-9]+$'`;
const FOLDER_SIZE = `
SELECT coalesce(sum((pg_stat_file('base/' || $1 || '/' || name, true)).size), 0)::float8 AS bytes
  FROM pg_ls_dir('base/' || $1, true, false) AS name`;

/** Returns a function that reads the progress of CREATE DATABASE once and emits it. */
async function reportProgress(
  context: CloneContext,
  session: Session,
  strategy: TemplateStrategy,
): Promise<() => Promise<void>> {
  const of = context.target.database.sizeBytes;
  const emit = (bytes: number) =>
    context.emit({ type: 'progress', phase: 'clone', done: Math.min(bytes, of), of, unit: 'bytes' });
  if (strategy === 'wal_log') {
    const [start] = await session.query<{ position: string }>(WAL_POSITION);
    return async () => {
      const [row] = await session.query<{ bytes: number }>(WAL_WRITTEN, [start?.position]);
      emit(row?.bytes ?? 0);
    };
  }
  if (strategy !== 'copy' || !context.target.role.superuser) return async () => {};
  const known = new Set((await session.query<{ oid: string }>(FOLDERS)).map(({ oid }) => oid));
  let folder: string | undefined;
  return async () => {
    folder ??= (await session.query<{ oid: string }>(FOLDERS)).find(({ oid }) => !known.has(oid))?.oid;
    if (folder === undefined) return;
    const [row] = await session.query<{ bytes: number }>(FOLDER_SIZE, [folder]);
    emit(row?.bytes ?? 0);
  };
}
