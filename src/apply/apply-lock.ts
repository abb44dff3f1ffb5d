import { createHash } from 'node:crypto';
import { SafemigrateError } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';

/**
 * The apply lock permits one apply for each target at a time. It is an advisory lock in the target itself, with a key derived
 * from the target's OID, and ends with the session that holds it.
 */

// pg_locks shows a bigint key as two halves, with objsubid 1.
const HOLDER = `
SELECT l.pid, a.usename AS "user", a.application_name AS application, a.backend_start::pg_catalog.text AS since
  FROM pg_catalog.pg_locks l LEFT JOIN pg_catalog.pg_stat_activity a ON a.pid = l.pid
 WHERE l.locktype = 'advisory' AND l.database = $1::pg_catalog.oid AND l.granted AND l.objsubid = 1
   AND l.classid = (($2::pg_catalog.int8 >> 32) & 4294967295)::pg_catalog.oid
   AND l.objid = ($2::pg_catalog.int8 & 4294967295)::pg_catalog.oid`;
const TAKE = 'SELECT pg_catalog.pg_try_advisory_lock($1::pg_catalog.int8) AS taken';

interface Holder {
  readonly pid: number;
  readonly user: string | null;
  readonly application: string | null;
  readonly since: string | null;
}

/** Takes the apply lock. @param session in the target. @throws SafemigrateError `REFUSED`, naming the session that holds it. */
export async function takeApplyLock(session: Session, databaseOid: number): Promise<void> {
  const [row] = await session.query<{ taken: boolean }>(TAKE, [keyOf(databaseOid)]);
  if (!row?.taken) throw occupied(session.database, await holderOf(session, databaseOid));
}

const CURRENT = `
SELECT oid::pg_catalog.int8 AS oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()`;

/** Refuses while another apply holds the lock. @param session in the target. @throws SafemigrateError `REFUSED` */
export async function refuseWhileOccupied(session: Session): Promise<void> {
  const [current] = await session.query<{ oid: string }>(CURRENT);
  const holder = await holderOf(session, Number(current?.oid));
  if (holder) throw occupied(session.database, holder);
}

async function holderOf(session: Session, databaseOid: number): Promise<Holder | undefined> {
  const [holder] = await session.query<Holder>(HOLDER, [databaseOid, keyOf(databaseOid)]);
  return holder;
}

function occupied(database: string, holder: Holder | undefined): SafemigrateError {
  const who = holder
    ? `: process ${holder.pid} of ${holder.user ?? 'another role'} (${holder.application ?? 'no application name'}), ` +
      `since ${holder.since ?? 'an unknown time'}`
    : '';
  return new SafemigrateError('REFUSED', `Another apply is running on ${database}${who}.`, {
    hint: 'Nothing was touched. Wait until it has ended, and run this again.',
  });
}

function keyOf(databaseOid: number): string {
  const hash = createHash('sha256').update(`safemigrate apply ${databaseOid}`).digest();
  return hash.readBigInt64BE(0).toString();
}
