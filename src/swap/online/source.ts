import { setTimeout as delay } from 'node:timers/promises';
import { shortOfSpace, type WalSpaceReader, watchWalSpace } from '../../database/wal-space.ts';
import { messageOf, sqlstateOf } from '../../errors.ts';
import { formatBytes } from '../../format.ts';
import { openMaintenanceSession, openMaintenanceSessionPatiently } from '../../ownership/control-session.ts';
import {
  dropOwnedPublications,
  dropOwnedSlot,
  insertsName,
  ownedSlots,
  replicationName,
} from '../../ownership/owned-replication.ts';
import { inTransaction } from '../../ownership/reopen.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { Scope } from '../../scope.ts';
import type { SwapSubject } from '../rename.ts';
import type { SwapPlan } from '../swap-plan.ts';
import { swapFailure } from '../swap-section.ts';
import type { CloneLag } from './clone-lag.ts';
import type { OnlinePlan, OnlineTable } from './online-plan.ts';

const RESTART_MS = 5_000;
const QUERY_CANCELED = '57014';

/** Opens a session of the run in the target. */
export function openInTarget({ target, run, audit, signal }: SwapSubject, purpose: string): Promise<Session> {
  return openSession(target.settings, { run, audit, signal, purpose });
}

/**
 * Publishes the tables that the clone will follow, and makes the slot that keeps the changes from now on. The publication comes
 * first, since decoding reads it as it was at the time of each change.
 * @param inside a session in the target.
 * @throws SafemigrateError `REFUSED` if transactions on the server do not end, for which the slot waits.
 */
export async function openSource(
  subject: SwapSubject,
  scope: Scope,
  inside: Session,
  plan: OnlinePlan,
): Promise<void> {
  const { run, target } = subject;
  const name = replicationName(run);
  await scope.own(
    `publication ${name}`,
    () => publishTables(inside, name, plan.tables),
    async () => {
      const { audit } = subject;
      const opening = openSession(target.settings, { run, audit, purpose: 'cleanup' });
      await withSession(opening, (session) => dropOwnedPublications(session, run));
    },
  );
  await scope.own(
    `replication slot ${name}`,
    () => makeSlot(inside, name),
    async () => {
      const { audit } = subject;
      const opening = openMaintenanceSessionPatiently(target, { run, audit, purpose: 'cleanup' }, RESTART_MS);
      await withSession(opening, (session) => dropOwnedSlot(session, { run, ownRun: true }));
    },
  );
}

/** Publishes tables. One without a replica identity could not be updated if its updates were published. */
export function publishTables(
  inside: Session,
  publication: string,
  tables: readonly OnlineTable[],
): Promise<void> {
  const listed = (insertsOnly: boolean) =>
    tables
      .filter((table) => table.insertsOnly === insertsOnly)
      .map(({ inTarget, columns, listsColumns }) => {
        const list = columns.map((column) => identifier(column.inTarget)).join(', ');
        return `ONLY ${inTarget}${listsColumns ? ` (${list})` : ''}`;
      });
  const statement = (name: string, list: string[], options: string) =>
    `CREATE PUBLICATION ${identifier(name)}${list.length > 0 ? ` FOR TABLE ${list.join(', ')}` : ''}${options}`;
  return inTransaction(inside, [
    statement(publication, listed(false), ''),
    statement(insertsName(publication), listed(true), " WITH (publish = 'insert, truncate')"),
  ]);
}

/** @throws SafemigrateError `REFUSED` if transactions on the server do not end, for which the slot waits. */
export async function makeSlot(inside: Session, name: string): Promise<void> {
  try {
    await inside.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", [name]);
  } catch (error) {
    if (sqlstateOf(error) !== QUERY_CANCELED) throw error;
    const blockers = await inside.query<{ who: string }>(BLOCKERS);
    const who = blockers.map((each) => each.who).join(', ') || 'they have ended by now';
    throw swapFailure(`a replication slot waits for all transactions on the server that write: ${who}`);
  }
}

const BLOCKERS = `
SELECT format('process %s of %s in %s, since %s', pid, usename, datname, xact_start) AS who
  FROM pg_stat_activity WHERE backend_xid IS NOT NULL AND pid <> pg_backend_pid()
 UNION ALL
SELECT format('prepared transaction %s in %s, since %s', gid, database, prepared) FROM pg_prepared_xacts
 LIMIT 5`;

const WATCH_EVERY_MS = 1_000;

type Limits = Pick<SwapPlan['online'], 'maxKeptWalBytes' | 'minFreeBytes'>;

/**
 * Ends the run once the server keeps too much WAL for the slot, or has lost some of it, or the disk gets full: a slot fills the disk
 * of production if it is not read.
 * @param lag gets a sample each time.
 */
export async function watchSlot(
  subject: SwapSubject,
  scope: Scope,
  limits: Limits,
  lag: CloneLag,
): Promise<void> {
  const { target, run, audit, fail } = subject;
  const ended = new AbortController();
  let watching: Promise<void> | undefined;
  await scope.own(
    'watch of the replication slot',
    async () => {
      const session = await openMaintenanceSession(target, { run, audit, purpose: 'slot watch' });
      const readSpace = await watchWalSpace(session, target, limits.minFreeBytes);
      watching = reasonToEnd(
        session,
        subject,
        { readSpace, maxKeptBytes: limits.maxKeptWalBytes, lag },
        ended.signal,
      )
        .catch((error: unknown) => `the watch of its replication slot has ended: ${messageOf(error)}`)
        .then((reason) => {
          if (reason !== null && !ended.signal.aborted) fail(swapFailure(reason));
        })
        .finally(() => session.close());
    },
    async () => {
      ended.abort();
      await watching;
    },
  );
}

async function reasonToEnd(
  session: Session,
  { run }: SwapSubject,
  {
    readSpace,
    maxKeptBytes,
    lag,
  }: { readonly readSpace: WalSpaceReader; readonly maxKeptBytes: number; readonly lag: CloneLag },
  signal: AbortSignal,
): Promise<string | null> {
  while (!signal.aborted) {
    const slot = (await ownedSlots(session)).find((each) => each.run === run && !each.wayBack);
    if (!slot) return 'its replication slot was dropped';
    // Before it is lost: a checkpoint that removes WAL waits until the slot's walsender has ended.
    if (slot.keptBytes === null)
      return 'the server no longer keeps the WAL that its replication slot needs (max_slot_wal_keep_size)';
    if (slot.keptBytes > maxKeptBytes)
      return `the server keeps ${formatBytes(slot.keptBytes)} of WAL for its replication slot, which is more than --limit kept-wal allows`;
    const short = shortOfSpace(await readSpace());
    if (short !== undefined) return short;
    await lag.sample(session, slot.name);
    await delay(WATCH_EVERY_MS, undefined, { signal }).catch(() => {});
  }
  return null;
}
