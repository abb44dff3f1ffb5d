import { SafemigrateError, sqlstateOf } from '../../errors.ts';
import type { Scope } from '../../scope.ts';
import type { Session } from '../../target/session.ts';
import { noticeOurEnd, openMaintenanceSession } from '../../upkeep/claim.ts';
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
export async function startBackup(
  context: CloneContext,
  { ground, server }: Survey,
  scope: Scope,
): Promise<Backup> {
  const { run, audit, signal, wishes } = context;
  const session = await scope.own(
    'backup session',
    () => openMaintenanceSession(ground, { run, audit, signal, purpose: 'backup' }),
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
    stop: () => stopBackup(session, stop),
    close: () => session.close(),
  };
}

const RESTARTED = 'Was it restarted, or did it fail over? What was made of the clone was removed; try again.';
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

async function stopBackup(session: Session, statement: string): Promise<BackupEnd> {
  try {
    const [end] = await session.query<{ lsn: string; label: string }>(statement);
    if (!end) throw new Error('the end of a backup has one row');
    return end;
  } catch (error) {
    if (sqlstateOf(error) !== WRONG_STATE) throw error;
    throw new SafemigrateError(
      'CLONE',
      'The server did not complete the backup: it was promoted meanwhile, or not ready for one.',
      {
        hint: RESTARTED,
        cause: error,
      },
    );
  }
}
