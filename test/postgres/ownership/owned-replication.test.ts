import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { advisoryLockKey, newRunId, type RunId } from '../../../src/ownership/run-id.ts';
import { safemigrate } from '../../helpers/cli.ts';
import { withClient } from '../../helpers/client.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { inDatabase } from '../../helpers/swapping.ts';

let server: Server;
let url: string;
beforeAll(async () => {
  server = await ownServer(18, { settings: { wal_level: 'logical' } });
  url = inDatabase(server.url, 'app');
  await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
});
afterAll(() => server.stop());

async function makeReplication(run: RunId | string): Promise<void> {
  await withClient(url, async (client) => {
    await client.query(`CREATE PUBLICATION safemigrate_${run}`);
    await client.query(`CREATE PUBLICATION safemigrate_${run}_inserts`);
    await client.query("SELECT pg_create_logical_replication_slot($1, 'pgoutput')", [`safemigrate_${run}`]);
  });
}

async function replication(): Promise<string[]> {
  const { rows } = await withClient(url, (client) =>
    client.query<{ name: string }>(
      `SELECT slot_name::text AS name FROM pg_replication_slots
       UNION ALL SELECT pubname::text FROM pg_publication ORDER BY 1`,
    ),
  );
  return rows.map(({ name }) => name.replace('safemigrate_', ''));
}

const namesOf = (run: string) => [run, run, `${run}_inserts`];

test('the slot and the publications of a dead run are dropped; those of a living one and of others stay', async () => {
  const [dead, alive] = [newRunId(0), newRunId(1)];
  const invented = 'abcdefghijklm';
  for (const run of [dead, alive, invented]) await makeReplication(run);
  await withClient(server.url, async (holder) => {
    await holder.query('SELECT pg_advisory_lock($1)', [advisoryLockKey(alive)]);
    const listed = await safemigrate(['list', '--url', url]);
    expect(listed.stdout).toContain(`safemigrate_${dead}`);
    const cleaned = await safemigrate(['clean', '--url', url]);
    expect(cleaned).toMatchObject({ exitCode: 0, stderr: '' });
    expect(cleaned.stdout).toContain(`safemigrate_${dead}`);
    expect(cleaned.stdout).toMatch(new RegExp(`left +replication slot safemigrate_${alive}`));
    expect(await replication()).toEqual([...namesOf(alive), ...namesOf(invented)].sort());
  });
  await safemigrate(['clean', '--url', url]);
  expect(await replication()).toEqual(namesOf(invented));
});
