import { expect, onTestFinished, test } from 'vitest';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { withoutClientPrograms } from '../helpers/client-programs.ts';
import { ownServer } from '../helpers/own-server.ts';
import { readReport } from '../helpers/read-report.ts';
import { OLDEST_AND_NEWEST } from '../helpers/servers.ts';
import { withDatabase } from '../helpers/target-state.ts';

const skip = await withoutClientPrograms('pg_dump', 'pg_restore');

/** Migrates, says that it waits, and goes on when it is told to. */
const WAITING = ['sh', '-c', '"$@"; echo waiting; read go', 'sh', ...sqlCommand('CREATE TABLE t (id int)')];

/**
 * In version 14 a collector counts late: our own transactions right before the sample seem to be made by others, and those at its end
 * are subtracted before they are counted.
 */
const mistaken = (version: number) => (version === 14 ? 40 : 0);

const COUNTED = `SELECT xact_commit AS transactions FROM pg_stat_database WHERE datname = 'shop'`;

const NEWEST = OLDEST_AND_NEWEST.at(-1) ?? 18;
const CASES = [
  ...OLDEST_AND_NEWEST.map((version) => ({ version, made: 50, clone: 'template' })),
  ...(skip ? [] : [{ version: 15 as const, made: 50, clone: 'dump' }]),
  { version: NEWEST, made: 0, clone: 'template' },
  { version: NEWEST, made: 50, clone: 'cluster' },
];

test.each(CASES)(
  'on PostgreSQL $version with --clone $clone, of $made transactions of others all are told, and none of ours',
  async ({ version, made, clone }) => {
    // One of its own, on which nobody else does anything.
    const server = await ownServer(version, { settings: { autovacuum: 'off' } });
    onTestFinished(() => server.stop());
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    const url = withDatabase(server.url, 'shop');
    const visit = () =>
      withClient(server.url, async (watcher) => {
        const counted = async () => Number((await watcher.query(COUNTED)).rows[0].transactions);
        const before = await counted();
        await withClient(url, async (client) => {
          // To log in is one as well.
          for (let n = 1; n < made; n++) await client.query('SELECT 1');
        });
        while ((await counted()) < before + made);
      });
    const { stdout, stderr } = await safemigrate(['--format', 'json', '--clone', clone, '--', ...WAITING], {
      env: { DATABASE_URL: url },
      typed: [
        [
          /waiting/,
          async () => {
            if (made > 0) await visit();
            return 'go\n';
          },
        ],
      ],
    });
    expect(stdout, stderr).not.toBe('');
    const { transactionsPerSecond, sampledMs } = readReport(stdout).forecast ?? {};
    const counted = Math.round(((transactionsPerSecond ?? Number.NaN) * (sampledMs ?? 0)) / 1000);
    expect(counted).toBeGreaterThanOrEqual(made - mistaken(version));
    expect(counted).toBeLessThanOrEqual(made + mistaken(version));
  },
);
