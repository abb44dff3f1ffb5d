import { readFileSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';

const TABLES = Number(process.env.TABLES ?? 100_000);
const AT_ONCE = 500;

test(`a database of ${TABLES} tables is rehearsed, and all of its schema is compared`, async () => {
  const server = await ownServer(18, { settings: { fsync: 'off', max_locks_per_transaction: '1024' } });
  onTestFinished(() => server.stop());
  const url = withDatabase(server.url, 'large');
  await withClient(server.url, (client) => client.query('CREATE DATABASE large'));
  await withClient(url, async (client) => {
    for (let first = 0; first < TABLES; first += AT_ONCE)
      await client.query(`DO $$ BEGIN FOR n IN ${first}..${first + AT_ONCE - 1} LOOP
        EXECUTE format('CREATE TABLE t%s (id bigint PRIMARY KEY, v text)', n); END LOOP; END $$`);
    await client.query('VACUUM ANALYZE');
  });
  let peak = 0;
  const started = performance.now();
  const { report, exitCode, stderr } = await rehearse(
    url,
    sqlCommand('ALTER TABLE t17 ADD COLUMN note text'),
    {
      args: ['--limit', 'stall=1h'],
      started: (pid) => {
        const timer = setInterval(() => {
          peak = Math.max(peak, peakOf(pid));
        }, 500);
        onTestFinished(() => clearInterval(timer));
      },
    },
  );
  const seconds = (performance.now() - started) / 1000;
  expect(exitCode, stderr).toBe(0);
  expect(report.schema?.changes).toMatchObject([{ verb: 'create', object: 'public.t17.note' }]);
  expect(report.schema?.unmodeled).toEqual([]);
  recordFigures(`a rehearsal on ${TABLES} tables, through the built CLI`, [
    {
      clone: report.clone.method,
      seconds: Math.round(seconds),
      'peak of resident memory, MB': Math.round(peak),
    },
  ]);
}, 3_600_000);

/** In megabytes; 0 if the process has ended. */
function peakOf(pid: number): number {
  try {
    return Number(/VmHWM:\s*(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
  } catch {
    return 0;
  }
}
