import { setTimeout as delay } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { withoutClientPrograms } from '../helpers/client-programs.ts';
import { ownServer } from '../helpers/own-server.ts';

const skip = await withoutClientPrograms('pg_dump', 'pg_restore');

/** The programs that dump and restore have more of them, in parallel. */
const OURS = `SELECT count(*) FROM pg_stat_activity
  WHERE application_name LIKE 'safemigrate %' AND application_name NOT LIKE '% dump'`;

const CASES: [ServerVersion, string][] = [
  [18, 'template'],
  ...(skip ? [] : [[15, 'dump'] as [ServerVersion, string]]),
];

test.each(CASES)(
  'safemigrate itself has at most three connections to PostgreSQL %d at any moment, --clone %s',
  async (version, clone) => {
    const server = await ownServer(version);
    onTestFinished(() => server.stop());
    const database = server.url.replace(/\/postgres$/, '/shop');
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    await withClient(database, (client) =>
      client.query('CREATE TABLE t (id int); INSERT INTO t SELECT generate_series(1, 200000)'),
    );
    let over = false;
    let most = 0;
    const watching = withClient(server.url, async (client) => {
      while (!over) {
        const { rows } = await client.query<{ count: string }>(OURS);
        most = Math.max(most, Number(rows[0]?.count));
        await delay(2);
      }
    });
    const { exitCode } = await safemigrate(
      ['--clone', clone, '--', ...sqlCommand('ALTER TABLE t ALTER COLUMN id TYPE bigint')],
      {
        env: { DATABASE_URL: database },
      },
    );
    over = true;
    await watching;
    expect(exitCode).toBe(0);
    expect(most).toBeGreaterThan(1);
    expect(most).toBeLessThanOrEqual(3);
  },
);
