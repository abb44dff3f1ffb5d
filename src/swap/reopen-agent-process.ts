import { setTimeout as pause } from 'node:timers/promises';
import { isAnotherSystem, onPrimary, readServerIdentity } from '../database/server-identity.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import { runIsAlive } from '../ownership/owned.ts';
import { reopenTargets } from '../ownership/reopen.ts';
import { resumePooler } from './pgbouncer.ts';
import type { Watched } from './reopen-agent.ts';

/**
 * Waits for the end of its input. With a word of farewell there is nothing to do; without one its starter has died, and
 * the targets that it has closed are opened, as soon as its advisory lock is gone and the server can be reached. After a
 * failover that is the new primary: of all hosts the one that takes writes. A server that cannot have the closed target from
 * the one that it was closed on is left alone, and the right one waited for.
 */
const TRY_EVERY_MS = 500;
const TRY_FOR_MS = 24 * 3_600_000;

async function main(): Promise<void> {
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => {});
  const { watched, dismissed } = await readInput();
  if (dismissed || !watched) return;
  const deadline = Date.now() + TRY_FOR_MS;
  while (Date.now() < deadline) {
    if (await reopened(watched)) return;
    await pause(TRY_EVERY_MS);
  }
}

async function readInput(): Promise<{ watched: Watched | undefined; dismissed: boolean }> {
  let text = '';
  process.stdin.setEncoding('utf8');
  for await (const chunk of process.stdin) {
    text += String(chunk);
    if (text.includes('\n')) ready();
  }
  const [first, farewell] = text.split('\n');
  return { watched: first ? (JSON.parse(first) as Watched) : undefined, dismissed: farewell === 'done' };
}

/** The channel is closed with the word: its other end should wait for nothing of us. */
function ready(): void {
  if (!process.connected) return;
  process.send?.('ready');
  process.disconnect();
}

/**
 * As long as a backend of the dead run works, a COMMIT that closes the target may still be on its way.
 * @returns whether nothing of the dead run is closed or paused any more.
 */
async function reopened({
  settings,
  database,
  server,
  run,
  lockDatabaseOid,
  pgbouncer,
  port,
}: Watched): Promise<boolean> {
  try {
    const place = { settings: onPrimary(settings), database: { name: database } };
    const session = await openMaintenanceSession(place, { purpose: 'guard' });
    try {
      if (isAnotherSystem(server, await readServerIdentity(session))) return false;
      if (await runIsAlive(session, run, lockDatabaseOid)) return false;
      await reopenTargets(session);
      const [row] = await session.query<{ open: boolean }>(OPEN, [database]);
      if (row?.open === false) return false;
      for (const console of pgbouncer) await resumePooler(console, { database, port });
      return true;
    } finally {
      await session.close();
    }
  } catch {
    return false;
  }
}

const OPEN = 'SELECT datallowconn AS open FROM pg_database WHERE datname = $1';

await main();
