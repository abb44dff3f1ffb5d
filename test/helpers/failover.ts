import { execFileSync } from 'node:child_process';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { onTestFinished } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { sqlCommand } from './cli.ts';
import { withClient } from './client.ts';
import { until } from './cutting.ts';
import { type PlacedServer, placedServer, standbyOf } from './placed-server.ts';
import { type Decision, type Relay, startRelay } from './relay.ts';
import { inDatabase } from './swapping.ts';

/** A server with a database of this name, which has a comment and a table; for one test. */
export async function primaryWith(name: string, version: ServerVersion = 18): Promise<PlacedServer> {
  const primary = await placedServer(version, { parent: tmpdir() });
  onTestFinished(() => primary.stop());
  await withClient(primary.url, async (client) => {
    await client.query(`CREATE DATABASE ${name}`);
    await client.query(`COMMENT ON DATABASE ${name} IS 'the users'' own'`);
  });
  await withClient(inDatabase(primary.url, name), (client) => client.query('CREATE TABLE kept (id int)'));
  return primary;
}

export async function streamingStandbyOf(
  primary: PlacedServer,
  version: ServerVersion = 18,
): Promise<PlacedServer> {
  const standby = await withClient(primary.url, (client) =>
    standbyOf(primary, version, async (sql) => (await client.query(sql)).rows),
  );
  onTestFinished(() => standby.stop());
  return standby;
}

export async function caughtUp(primary: PlacedServer, standby: PlacedServer): Promise<void> {
  const { rows } = await withClient(primary.url, (client) =>
    client.query<{ lsn: string }>('SELECT pg_current_wal_lsn()::text AS lsn'),
  );
  await withClient(standby.url, (client) =>
    until('the standby has it all', async () => {
      const replayed = 'SELECT pg_last_wal_replay_lsn() >= $1::pg_lsn AS done';
      return (await client.query<{ done: boolean }>(replayed, [rows[0]?.lsn])).rows[0]?.done ?? false;
    }),
  );
}

/** Has happened when it returns: nothing else happens in this process meanwhile, so that a relay holds what it was passing on. */
export function promote({ url }: PlacedServer): void {
  const [program = '', ...words] = sqlCommand('SELECT pg_promote()');
  execFileSync(program, words, { env: { ...process.env, DATABASE_URL: url }, stdio: 'pipe' });
}

/** As a crash ends it, and as promote() does it. Its folder stays. */
export function crash({ data }: PlacedServer): void {
  const script = 'kill -s QUIT "$(head -n 1 "$1")"; while [ -e "$1" ]; do sleep 0.01; done';
  execFileSync('sh', ['-c', script, 'sh', path.join(data, 'postmaster.pid')]);
}

export async function relayTo(
  { url }: PlacedServer,
  decide?: (index: number, text: string) => Decision,
): Promise<Relay> {
  const relay = await startRelay(url, decide);
  onTestFinished(() => relay.close());
  return relay;
}

export function through({ port }: Relay, url: string): string {
  const changed = new URL(url);
  changed.port = String(port);
  changed.searchParams.set('sslmode', 'disable');
  return changed.href;
}
