import { setTimeout as delay } from 'node:timers/promises';
import { isAnotherSystem, onPrimary, readServerIdentity } from '../database/server-identity.ts';
import { isBeingChanged } from '../ownership/change-lock.ts';
import { cleanRuns } from '../ownership/clean.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import { runIsAlive } from '../ownership/owned.ts';
import { reopenTargets } from '../ownership/reopen.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { resumePooler } from './pgbouncer.ts';
import type { ReopenOrder } from './reopen-agent.ts';

/**
 * Waits for the end of its standard input. If the last line is `done`, there is nothing to do. Otherwise its starter has died:
 * it reopens the targets that the starter has closed, as soon as the starter's advisory lock is gone and the server can be
 * reached. After a failover that is the new primary: of all hosts, the one that accepts writes. It leaves a server of another
 * database system alone, and waits for the right one. After an online swap it also drops the clone, the replication slot and the
 * publications.
 */
const FIRST_DELAY_MS = 50;
/** The server notices within 500 ms that we have died (noticeOurEnd()), so that a target is reopened after about a second. */
const LONGEST_DELAY_MS = 500;
const TRY_FOR_MS = 24 * 3_600_000;

async function main(): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => {});
  const { order, dismissed } = await readInput();
  if (dismissed || !order) return;
  const deadline = performance.now() + TRY_FOR_MS;
  for (
    let delayMs = FIRST_DELAY_MS;
    performance.now() < deadline;
    delayMs = Math.min(2 * delayMs, LONGEST_DELAY_MS)
  ) {
    if (await reopen(order)) return;
    await delay(delayMs);
  }
}

async function readInput(): Promise<{ order: ReopenOrder | undefined; dismissed: boolean }> {
  let text = '';
  process.stdin.setEncoding('utf8');
  for await (const chunk of process.stdin) {
    text += String(chunk);
    if (text.includes('\n')) reportReady();
  }
  const [first, last] = text.split('\n');
  return { order: first ? (JSON.parse(first) as ReopenOrder) : undefined, dismissed: last === 'done' };
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
