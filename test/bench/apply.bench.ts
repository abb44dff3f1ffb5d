import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/server/embedded.ts';
import { apply } from '../helpers/apply.ts';
import { runProgram } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { ownServer } from '../helpers/own-server.ts';
import { scriptCommand } from '../helpers/rehearse.ts';

import { median, printRatios } from './ratios.ts';

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
      printRatios(
        name,
        { directly: median(times.directly ?? []), applied: median(times.applied ?? []) },
        'applied',
      );
    },
    300_000,
  );
});

/** Of the last run that tells it: the one on the target. */
function tookOf(said: string): number {
  return Number([...said.matchAll(/^took ([\d.]+)$/gm)].at(-1)?.[1]);
}
