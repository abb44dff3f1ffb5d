import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import { noticeOurEnd, openMaintenanceSession } from '../../ownership/control-session.ts';
import type { Session } from '../../postgres/connection/session.ts';
import type { Scope } from '../../scope.ts';
import type { CloneContext } from '../method.ts';
import { PG_15, type SourceServer } from './source-server.ts';
import type { Survey } from './survey.ts';

/**
 * An online backup. It belongs to a session, and the slot that retains its WAL to another one: when they end, in whatever way, the
 * server aborts the backup and drops the slot.
 */
export interface Backup {
  /** Fires when the run ends or one of the sessions is lost. */
  readonly signal: AbortSignal;
  /** A slot retains the WAL that the copy needs. */
  readonly reserved: boolean;
  /** Ends the backup. @throws SafemigrateError `LOST` or `CLONE` if the server was restarted or promoted in the meantime. */
  stop(): Promise<BackupEnd>;
  /**
   * Checks, once the WAL is copied, that the server was not promoted: a promotion renames WAL of the former timeline.
   * @throws SafemigrateError `LOST`; `CLONE` for a standby that was promoted.
   */
  refusePromoted(): Promise<void>;
  close(): Promise<void>;
}

export interface BackupEnd {
  /** Recovery must reach this position. */
  readonly lsn: string;
  /** The content of the file `backup_label`. */
  readonly label: string;
}

const FREE_SLOTS = `
SELECT current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots)::int AS free`;
export const RESERVE_WAL = 'SELECT pg_create_physical_replication_slot($1, true, true)';

export function backupStatements({ versionNum }: Pick<SourceServer, 'versionNum'>): {
  start: string;
  stop: string;
} {
  return versionNum >= PG_15
    ? {
        start: 'SELECT pg_backup_start(label => $1, fast => $2)::text AS lsn',
        stop: 'SELECT lsn::text, labelfile AS label FROM pg_backup_stop(wait_for_archive => false)',
      }
    : {
        start: 'SELECT pg_start_backup(label => $1, fast => $2, exclusive => false)::text AS lsn',
        stop: 'SELECT lsn::text, labelfile AS label FROM pg_stop_backup(exclusive => false, wait_for_archive => false)',
      };
}

export function slotName({ run }: Pick<CloneContext, 'run'>): string {
  return `safemigrate_${run}`;
}

/** Starts a backup over a session that the scope owns. Waits for the checkpoint. */
export async function startBackup(context: CloneContext, survey: Survey, scope: Scope): Promise<Backup> {
  const { run, signal, options } = context;
  const { server } = survey;
  const lost = new AbortController();
  const open = async (what: string) => {
    const opened = await scope.own(
      what,
      () => openBackupSession(context, survey),
      async (session) => session?.close(),
    );
    opened.onLost((reason) =>
      lost.abort(
        new SafemigrateError('LOST', `The server ended the backup: ${reason}.`, { hint: RESTARTED }),
      ),
    );
    return opened;
  };
  const session = await open('backup session');
  // The checkpoint may take minutes: an interrupted run must not wait for it.
  await noticeOurEnd(session);
  const { start, stop } = backupStatements(server);
  // Before the backup begins, so that its WAL is held from there on.
  const slot = server.mayReserve
    ? await reserveWal(() => open('session of the slot'), slotName(context))
    : null;
  await session.query(start, [`safemigrate ${run}`, options.checkpoint === 'fast']);
  return {
    signal: AbortSignal.any([signal, lost.signal]),
    reserved: slot !== null,
    stop: () => orLoss(lost.signal, stopBackup(session, stop, server)),
    refusePromoted: () => orLoss(lost.signal, server.inRecovery ? refusePromoted(session) : undefined),
    close: async () => {
      await session.close();
      await slot?.close();
    },
  };
}

/** Prefers the reason for the end of the session to the error of a query that it broke. */
async function orLoss<T>(lost: AbortSignal, work: T | Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    throw lost.aborted ? lost.reason : error;
  }
}

/**
 * Checks that the address still belongs to the server whose files are copied: a failover may have moved it.
 * @throws SafemigrateError `CLONE` if another server answers.
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
    `The server that answers now is not the one whose files are in ${directory.folder}.`,
    { hint: RESTARTED },
  );
}

const STARTED_AT = 'SELECT extract(epoch FROM pg_postmaster_start_time())::float8 AS "startedAt"';

const REMOVED = 'The target was not touched, and the incomplete clone was removed.';
const RESTARTED = `Was it restarted, or did it fail over? ${REMOVED} Run it again.`;
const NO_FREE_SLOT = '53400';
const WRONG_STATE = '55000';

/**
 * Creates the slot. Without it a checkpoint may recycle WAL that the copy needs, which is detected at the end.
 * @returns the session that the slot goes with; null if there is no free slot.
 */
async function reserveWal(open: () => Promise<Session>, name: string): Promise<Session | null> {
  const session = await open();
  try {
    const [slots] = await session.query<{ free: number }>(FREE_SLOTS);
    if (slots && slots.free > 0) {
      await session.query(RESERVE_WAL, [name]);
      return session;
    }
  } catch (error) {
    // Another session took the last slot.
    if (sqlstateOf(error) !== NO_FREE_SLOT) throw error;
  }
  await session.close();
  return null;
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
    // A promotion is one of several reasons for this state.
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
    hint: `${REMOVED} Run it again with another standby, or without --clone-from.`,
  });
}
