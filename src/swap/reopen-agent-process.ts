import { setTimeout as delay } from 'node:timers/promises';
import { isAnotherSystem, onPrimary, readServerIdentity } from '../database/server-identity.ts';
import { isBeingChanged } from '../ownership/change-lock.ts';
import { cleanRuns, endWayBackInTime } from '../ownership/clean.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import { runIsAlive } from '../ownership/owned.ts';
import { reopenTargets } from '../ownership/reopen.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { resumePooler } from './pgbouncer.ts';
import { LAST_WORDS, type LastWord, type ReopenOrder } from './reopen-agent.ts';

/**
 * Waits for the end of its standard input. If the last line is `done`, there is nothing to do. If it is `end the way back`, it stays
 * until the way back of the run is over, and ends it. Otherwise its starter has died: it reopens the targets that the starter has closed, as soon as the starter's advisory lock is gone and the server can be
 * reached. After a failover that is the new primary: of all hosts, the one that accepts writes. It leaves a server of another
 * database system alone, and waits for the right one. After an online swap it also drops the clone, the replication slot and the
 * publications, and stays for the way back, if there is one.
 */
const FIRST_DELAY_MS = 50;
/** The server notices within 500 ms that we have died (noticeOurEnd()), so that a target is reopened after about a second. */
const LONGEST_DELAY_MS = 500;
const TRY_FOR_MS = 24 * 3_600_000;

/** So often it looks whether the way back still exists, and whether the disk is filling up. */
const LOOK_EVERY_MS = 60_000;

async function main(): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => {});
  const { order, word } = await readInput();
  if (word === 'done' || !order) return;
  const hasReopened = word !== undefined || (await reopenPatiently(order));
  if (hasReopened && order.replicating.length > 0) await endWayBackAtItsTime(order);
}

/** @returns whether it is done; it gives up after a day. */
async function reopenPatiently(order: ReopenOrder): Promise<boolean> {
  const deadline = performance.now() + TRY_FOR_MS;
  for (
    let delayMs = FIRST_DELAY_MS;
    performance.now() < deadline;
    delayMs = Math.min(2 * delayMs, LONGEST_DELAY_MS)
  ) {
    if (await reopen(order)) return true;
    await delay(delayMs);
  }
  return false;
}

/** Waits until the way back has ended, at the latest a day after its time if the server cannot be reached. */
async function endWayBackAtItsTime({ settings, database, server, run }: ReopenOrder): Promise<void> {
  // A machine that shuts down does not wait for it: `clean` can end the way back as well.
  process.removeAllListeners('SIGTERM');
  const place = { settings: onPrimary(settings), database: { name: database } };
  const enter = (name: string) => openSession(place.settings, { database: name, purpose: 'guard' });
  const look = (session: Session) => endWayBackInTime(session, run, { enter, settings: place.settings });
  let until: number | null = Date.now();
  while (until !== null && Date.now() < until + TRY_FOR_MS) {
    try {
      until = await withSession(openMaintenanceSession(place, { purpose: 'guard' }), async (session) =>
        isAnotherSystem(server, await readServerIdentity(session)) ? until : look(session),
      );
    } catch {
      // The server may be restarting.
    }
    const leftMs = (until ?? 0) - Date.now();
    if (until !== null) await delay(leftMs > 0 ? Math.min(leftMs + 1, LOOK_EVERY_MS) : LOOK_EVERY_MS);
  }
}

async function readInput(): Promise<{ order: ReopenOrder | undefined; word: LastWord | undefined }> {
  let text = '';
  process.stdin.setEncoding('utf8');
  for await (const chunk of process.stdin) {
    text += String(chunk);
    if (text.includes('\n')) reportReady();
  }
  const [first, last] = text.split('\n');
  const word = LAST_WORDS.find((each) => each === last);
  return { order: first ? (JSON.parse(first) as ReopenOrder) : undefined, word };
}

/** Reports that the order was read, and closes the channel, so that it does not keep the starter alive. */
function reportReady(): void {
  if (!process.connected) return;
  process.send?.('ready');
  process.disconnect();
}

/**
 * Reopens what the dead run has closed and resumes what it has paused, unless a backend of it still works: that may be
 * committing the statement that closes the target.
 * @returns whether nothing of the dead run is closed or paused any more.
 */
async function reopen({ settings, database, server, run, ...order }: ReopenOrder): Promise<boolean> {
  try {
    const place = { settings: onPrimary(settings), database: { name: database } };
    return await withSession(openMaintenanceSession(place, { purpose: 'guard' }), async (session) => {
      if (isAnotherSystem(server, await readServerIdentity(session))) return false;
      if (await runIsAlive(session, run, order.lockDatabaseOid)) return false;
      await reopenTargets(session);
      const [row] = await session.query<{ open: boolean }>(OPEN, [database]);
      if (row?.open === false) return false;
      for (const console of order.consoles) await resumePooler(console, { database, port: order.port });
      if (order.replicating.length === 0) return true;
      // The lock on changes is held by another session of the dead run, which may end later.
      if (await isBeingChanged(session, database)) return false;
      const enter = (name: string) => openSession(place.settings, { database: name, purpose: 'guard' });
      const where = { target: database, enter, settings: place.settings };
      const { failed } = await cleanRuns(session, order.replicating, where);
      return failed.length === 0;
    });
  } catch {
    // Whatever failed, the server may be restarting: the caller tries again.
    return false;
  }
}

const OPEN = 'SELECT datallowconn AS open FROM pg_database WHERE datname = $1';

void main();
