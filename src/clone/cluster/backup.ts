import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import { noticeOurEnd, openMaintenanceSession } from '../../ownership/control-session.ts';
import type { Session } from '../../postgres/connection/session.ts';
import type { Scope } from '../../scope.ts';
import type { CloneContext } from '../method.ts';
import { PG_15, type SourceServer } from './source-server.ts';
import type { Survey } from './survey.ts';

/**
 * A backup that the server knows of. It belongs to its session: when that ends, in whatever way, the server gives the
 * backup up, and drops the slot that holds its WAL.
 */
export interface Backup {
  /** Aborted by the run's end, and when the session is lost. */
  readonly signal: AbortSignal;
  /** A slot holds the WAL that the copy needs. */
  readonly reserved: boolean;
  /** @throws SafemigrateError `LOST` or `CLONE` when the server was restarted or promoted meanwhile. */
  stop(): Promise<BackupEnd>;
  /**
   * A promotion renames the WAL of the former timeline, which the copy needs: to be asked once that is copied.
   * @throws SafemigrateError `LOST`; `CLONE` for a standby that is none any more.
   */
  refusePromoted(): Promise<void>;
  close(): Promise<void>;
}

export interface BackupEnd {
  /** Recovery has to come as far as this position. */
  readonly lsn: string;
  /** The content of the file `backup_label`. */
  readonly label: string;
}

const FREE_SLOTS = `
SELECT current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots)::int AS free`;
const RESERVE_WAL = 'SELECT slot_name FROM pg_create_physical_replication_slot($1, true, true)';

export function backupStatements({ versionNum }: Pick<SourceServer, 'versionNum'>): {
  start: string;
  stop: string;
} {
  return versionNum >= PG_15
    ? {
        start: 'SELECT pg_backup_start(label => $1, fast => $2)',
        stop: 'SELECT lsn::text, labelfile AS label FROM pg_backup_stop(wait_for_archive => false)',
      }
    : {
        start: 'SELECT pg_start_backup(label => $1, fast => $2, exclusive => false)',
        stop: 'SELECT lsn::text, labelfile AS label FROM pg_stop_backup(exclusive => false, wait_for_archive => false)',
      };
}

export function slotName({ run }: Pick<CloneContext, 'run'>): string {
  return `safemigrate_${run}`;
}

/** Starts a backup; the session that it depends on is the scope's. Waits for the checkpoint. */
export async function startBackup(context: CloneContext, survey: Survey, scope: Scope): Promise<Backup> {
  const { run, signal, wishes } = context;
  const { server } = survey;
  const session = await scope.own(
    'backup session',
    () => openBackupSession(context, survey),
    async (opened) => opened?.close(),
  );
  const lost = new AbortController();
  session.onLost((reason) =>
    lost.abort(new SafemigrateError('LOST', `The server ended the backup: ${reason}.`, { hint: RESTARTED })),
  );
  // The checkpoint may take minutes, and nobody would want it any more.
  await noticeOurEnd(session);
  const reserved = server.mayReserve && (await reserveWal(session, slotName(context)));
  const { start, stop } = backupStatements(server);
  await session.query(start, [`safemigrate ${run}`, wishes.checkpoint === 'fast']);
  return {
    signal: AbortSignal.any([signal, lost.signal]),
    reserved,
    stop: () => orLoss(lost.signal, stopBackup(session, stop, server)),
    refusePromoted: () => orLoss(lost.signal, server.inRecovery ? refusePromoted(session) : undefined),
    close: () => session.close(),
  };
}

/** What the end of the session does to a query says less than that it has ended. */
async function orLoss<T>(lost: AbortSignal, work: T | Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw lost.aborted ? lost.reason : error;
  }
}

/**
 * Where the address leads to may change, as after a failover, and the files that are copied are one server's alone.
 * @throws SafemigrateError `CLONE` when another server answers than the one that was looked at.
 */
export async function openBackupSession(
  { run, audit, signal }: CloneContext,
  { ground, server, directory }: Survey,
): Promise<Session> {
  const session = await openMaintenanceSession(ground, { run, audit, signal, purpose: 'backup' });
  const [answering] = await session.query<{ startedAt: number }>(STARTED_AT);
  if (answering?.startedAt === server.startedAt) return session;
  await session.close();
  throw new SafemigrateError(
    'CLONE',
    `Another server answers now than the one whose files are in ${directory.folder}.`,
    { hint: RESTARTED },
  );
}

const STARTED_AT = 'SELECT extract(epoch FROM pg_postmaster_start_time())::float8 AS "startedAt"';

const REMOVED = 'The target was not touched, and what was made of the clone was removed.';
const RESTARTED = `Was it restarted, or did it fail over? ${REMOVED} Run it again.`;
const NO_FREE_SLOT = '53400';
const WRONG_STATE = '55000';

/** Without it a checkpoint meanwhile might recycle WAL that the copy needs; then it is found missing at the end. */
async function reserveWal(session: Session, name: string): Promise<boolean> {
  const [slots] = await session.query<{ free: number }>(FREE_SLOTS);
  if (!slots || slots.free <= 0) return false;
  try {
    await session.query(RESERVE_WAL, [name]);
    return true;
  } catch (error) {
    // Somebody else took the last one.
    if (sqlstateOf(error) !== NO_FREE_SLOT) throw error;
    return false;
  }
}

async function stopBackup(
  session: Session,
  statement: string,
  { inRecovery }: SourceServer,
): Promise<BackupEnd> {
  try {
    const [end] = await session.query<{ lsn: string; label: string }>(statement);
    if (!end) throw new Error('the end of a backup has one row');
    return end;
  } catch (error) {
    if (sqlstateOf(error) !== WRONG_STATE) throw error;
    // A promotion is one of several reasons for it.
    if (inRecovery) await refusePromoted(session);
    throw new SafemigrateError('CLONE', `The server did not complete the backup: ${messageOf(error)}.`, {
      hint: `${REMOVED} Run it again.`,
      cause: error,
    });
  }
}

async function refusePromoted(session: Session): Promise<void> {
  const [row] = await session.query<{ standby: boolean }>('SELECT pg_is_in_recovery() AS standby');
  if (row?.standby) return;
  throw new SafemigrateError('CLONE', 'The standby was promoted while it was copied.', {
    hint: `${REMOVED} Run it again with another standby, or without --source.`,
  });
}
