import { afterEach, describe, expect, test } from 'vitest';
import type { Server } from '../../src/server/embedded.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { VERSIONS } from '../helpers/servers.ts';
import { withDatabase } from '../helpers/target-state.ts';

/** Each has a server of its own, on which nobody else does anything. */
let server: Server | undefined;
afterEach(() => server?.stop());

/** Migrates, says that it waits, and goes on when it is told to. */
const WAITING = ['sh', '-c', '"$@"; echo waiting; read go', 'sh', ...sqlCommand('CREATE TABLE t (id int)')];

/** What somebody does in the target while the command runs, as the forecast counts it. */
async function countedBy(version: (typeof VERSIONS)[number], transactions: number, clone: string) {
  server = await ownServer(version, { settings: { autovacuum: 'off' } });
  await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  const url = withDatabase(server.url, 'shop');
  const work = async () => {
    if (transactions === 0) return 'go\n';
    await withClient(url, async (client) => {
      // To log in is one as well.
      for (let n = 1; n < transactions; n++) await client.query('SELECT 1');
    });
    return 'go\n';
  };
  const { stdout, stderr } = await safemigrate(['--format', 'json', '--clone', clone, '--', ...WAITING], {
    env: { DATABASE_URL: url },
    typed: [[/waiting/, work]],
  });
  expect(stdout, stderr).not.toBe('');
  const { forecast } = readReport(stdout);
  return Math.round(((forecast?.transactionsPerSecond ?? Number.NaN) * (forecast?.sampledMs ?? 0)) / 1000);
}

/** In version 14 a collector counts what we did so late that some of it seems to be done by others. */
const mistaken = (version: number) => (version === 14 ? 10 : 0);

describe.each(VERSIONS)('on PostgreSQL %d', (version) => {
  test.each([
    ['template', 0],
    ['template', 50],
    ['cluster', 50],
  ])('with --clone %s, of %d transactions of others all are told, and none of ours', async (clone, made) => {
    const counted = await countedBy(version, made, clone);
    expect(counted).toBeGreaterThanOrEqual(made);
    expect(counted).toBeLessThanOrEqual(made + mistaken(version));
  });
});
