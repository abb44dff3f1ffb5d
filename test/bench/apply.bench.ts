import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { apply } from '../helpers/apply.ts';
import { runProgram } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { until } from '../helpers/cutting.ts';
import { withGuarded } from '../helpers/guarded.ts';
import { ownServer } from '../helpers/own-server.ts';
import { scriptCommand } from '../helpers/rehearse.ts';

import { median, recordFigures, recordRatios } from './figures.ts';

/** The command on the target with all guards on, against the command alone; both tell how long their statements took. */
const ROUNDS = 3;
const BODY = `
const client = await connect();
const [count, sql] = [Number(args[0]), args[1]];
const started = performance.now();
for (let n = 0; n < count; n++) await client.query(sql.replaceAll('$n', n + Number(args[2])));
console.error('took ' + (performance.now() - started));
await client.end();`;

describe('apply', () => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    // As a server is that has data to lose.
    server = await ownServer(18, { settings: { fsync: 'on', synchronous_commit: 'on' } });
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    url = changedUrl(server.url, { database: 'shop' });
    await withClient(url, (client) =>
      client.query(
        'CREATE TABLE t (id int, v text); CREATE TABLE big AS SELECT n, 0 AS m FROM generate_series(1, 500000) n',
      ),
    );
  }, 120_000);
  afterAll(() => server.stop());

  test.each([
    ['1,000 INSERTs', 1000, "INSERT INTO t VALUES ($n, 'row $n')"],
    ['100 ALTER TABLE', 100, 'ALTER TABLE t ADD COLUMN c$n int'],
    ['UPDATE of 500,000 rows', 1, 'UPDATE big SET m = m + 1'],
  ])(
    '%s',
    async (name, count, sql) => {
      const times: Record<string, number[]> = { directly: [], applied: [] };
      for (let round = 0; round < ROUNDS; round++) {
        const direct = await runProgram(scriptCommand(BODY, String(count), sql, String(round * 10_000)), {
          env: { DATABASE_URL: url },
        });
        times.directly?.push(tookOf(direct.stderr));
        const command = scriptCommand(BODY, String(count), sql, String(round * 10_000 + 5_000));
        const applied = await apply(url, command, { args: ['--force', 'a benchmark'] });
        expect(applied.apply.outcome).toBe('applied');
        times.applied?.push(tookOf(applied.stderr));
      }
      recordRatios(
        name,
        { directly: median(times.directly ?? []), applied: median(times.applied ?? []) },
        'applied',
      );
    },
    300_000,
  );
});

const TURNS = 9;
const LIMITS_MS = [300, 1_000];
const CANCELED = '57014';

/**
 * How long a session still waits behind the command once it has waited for --limit blocked: until the look that finds it,
 * the cancel, and the rollback that gives the lock back. Nothing faster than the looks, every 100 ms, can be expected.
 */
describe('the watchdog of an apply', () => {
  let server: Server;
  beforeAll(async () => {
    server = await ownServer(18);
    await withClient(server.url, (client) =>
      client.query('CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0)'),
    );
  }, 120_000);
  afterAll(() => server.stop());

  test.each(LIMITS_MS)(
    'with --limit blocked %i ms',
    async (maxBlockedMs) => {
      const sql = 'UPDATE t SET v = v + 1 WHERE id = 1 RETURNING pg_sleep(60)';
      const reactionsMs = await withGuarded(server.url, [sql], { maxBlockedMs }, async ({ url }) => {
        const reactions: number[] = [];
        for (let turn = 0; turn < TURNS; turn++) reactions.push((await waitBehind(url, sql)) - maxBlockedMs);
        return reactions;
      });
      const [least = 0, most = 0] = [Math.min(...reactionsMs), Math.max(...reactionsMs)];
      recordFigures(`reaction of --limit blocked=${maxBlockedMs} ms, ${TURNS} turns`, [
        {
          'least ms': Math.round(least),
          'median ms': Math.round(median(reactionsMs)),
          'most ms': Math.round(most),
          'waited / limit': (1 + median(reactionsMs) / maxBlockedMs).toFixed(2),
        },
      ]);
    },
    300_000,
  );

  /** @returns for how long a session waited behind the statement, in ms, by the clock of its client. */
  async function waitBehind(url: string, sql: string): Promise<number> {
    return await withClient(url, async (command) => {
      const failed = command.query(sql).then(
        () => undefined,
        (error: unknown) => error,
      );
      const other = new Client({ connectionString: server.url });
      await other.connect();
      await until('the row is locked', async () => {
        const { rowCount } = await other.query('SELECT 1 FROM t WHERE id = 1 FOR UPDATE SKIP LOCKED');
        return rowCount === 0;
      });
      const startedMs = performance.now();
      await other.query('UPDATE t SET v = 0 WHERE id = 1');
      const waitedMs = performance.now() - startedMs;
      expect(await failed).toMatchObject({ code: CANCELED });
      await other.end();
      return waitedMs;
    });
  }
});

/** Of the last run that tells it: the one on the target. */
function tookOf(said: string): number {
  return Number([...said.matchAll(/^took ([\d.]+)$/gm)].at(-1)?.[1]);
}
