import { beforeAll, expect, test } from 'vitest';
import { sqlCommand } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

beforeAll(() => useOwnServers(18));

const TABLES = 'CREATE TABLE settings (name text, changed_at timestamptz DEFAULT clock_timestamp())';

test('what is done once for each of several runs at once is reported, and the target is untouched', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const { report, exitCode } = await rehearse(target.url, sqlCommand("INSERT INTO settings VALUES ('a')"), {
    args: ['--at-once', '3'],
  });
  expect(exitCode).toBe(1);
  expect(report.atOnce?.runs.map((run) => run.exitCode)).toEqual([0, 0, 0]);
  expect(report.atOnce).toMatchObject({
    schemaEqual: true,
    passed: false,
    deadlocks: 0,
    dataDifferences: [{ relation: 'public.settings', what: '1 → 3 rows', bookkeeping: false }],
  });
  expect(report.target.changes).toEqual([]);
  expect(report.cleanup.failed).toEqual([]);
});

test('what only one of them may do passes if the others wait for it', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const once = `BEGIN; SELECT pg_advisory_xact_lock(1);
    INSERT INTO settings SELECT 'a' WHERE NOT EXISTS (SELECT FROM settings); COMMIT`;
  const { report, exitCode } = await rehearse(target.url, psqlCommand('-c', once), {
    args: ['--at-once', '3'],
  });
  expect(exitCode, report.verdict.reasons.join()).toBe(0);
  expect(report.atOnce).toMatchObject({ passed: true, dataDifferences: [] });
});

test('one that fails beside others is a reason', async () => {
  const target = await temporaryDatabase(18, { sql: TABLES });
  const { report, exitCode } = await rehearse(
    target.url,
    sqlCommand('BEGIN; CREATE TABLE made (id int); SELECT pg_sleep(0.3); COMMIT'),
    { args: ['--at-once', '2'] },
  );
  expect(exitCode).toBe(1);
  expect(report.verdict.reasons.join()).toMatch(/of 2 runs that were started together 1 failed/);
  expect(report.atOnce?.schemaEqual).toBe(true);
});
