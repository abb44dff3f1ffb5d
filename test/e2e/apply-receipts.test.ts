import { readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { apply } from '../helpers/apply.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { digestOf } from '../helpers/target-state.ts';

const KEY = 'a key that only CI knows';
const COMMAND = sqlCommand('CREATE TABLE made (id int); INSERT INTO made VALUES (1)');

let target: TemporaryDatabase;
let file: string;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int)' });
  file = path.join(temporaryFolder(), 'receipt.json');
});

afterEach(() => target.drop());

const rehearsed = (...args: string[]) =>
  rehearse(target.url, COMMAND, { args: ['--receipt', file, ...args] });
const applied = (...args: string[]) => apply(target.url, COMMAND, { args: ['--receipt', file, ...args] });

/** What has no report: the receipt could not even be read. */
const refused = (args: string[], env: NodeJS.ProcessEnv = {}) =>
  safemigrate(['apply', '--yes', '--receipt', file, ...args, '--', ...COMMAND], {
    env: { DATABASE_URL: target.url, ...env },
  });

describe('an apply by receipt', () => {
  test('relies on the rehearsal that was made elsewhere, and makes none', async () => {
    const first = await rehearsed();
    expect(first.stderr).toContain('not signed');
    const { exitCode, apply: outcome, report } = await applied();
    expect(outcome).toMatchObject({ outcome: 'applied', schemaEqual: true, receipt: { signed: false } });
    expect(exitCode).toBe(0);
    expect(outcome.rehearsal).toBe(first.report.run.id);
    expect(report.run.id).not.toBe(first.report.run.id);
    expect(report.statements).toEqual(first.report.statements);
    const { rows } = await withClient(target.url, (client) => client.query('SELECT id FROM made'));
    expect(rows).toEqual([{ id: 1 }]);
  });

  test('proves its signature; the key is never printed', async () => {
    await rehearsed('--receipt-key', KEY);
    const { apply: outcome, stderr, stdout } = await applied('--receipt-key', KEY);
    expect(outcome).toMatchObject({ outcome: 'applied', receipt: { signed: true } });
    expect(stderr + stdout + readFileSync(file, 'utf8')).not.toContain(KEY);
  });

  test('is refused where the receipt was altered: exit code 4, and the target is not touched', async () => {
    await rehearsed('--receipt-key', KEY);
    writeFileSync(file, readFileSync(file, 'utf8').replace('"CREATE TABLE', '"CREATE UNLOGGED TABLE'));
    const before = await digestOf(target.url);
    const { exitCode, stderr } = await refused([], { SAFEMIGRATE_RECEIPT_KEY: KEY });
    expect(stderr).toContain('The receipt is refused: it was altered');
    expect(exitCode).toBe(4);
    expect(await digestOf(target.url)).toEqual(before);
  });

  test('is refused where it is older than it may be', async () => {
    await rehearsed();
    const { exitCode, apply: outcome } = await applied('--limit', 'age=1ms');
    expect(outcome).toMatchObject({ outcome: 'refused', reasons: [expect.stringContaining('--limit age')] });
    expect(exitCode).toBe(4);
  });

  test('is refused for another command', async () => {
    await rehearsed();
    const { exitCode, apply: outcome } = await apply(target.url, sqlCommand('DROP TABLE jobs'), {
      args: ['--receipt', file],
    });
    expect(outcome.reasons).toEqual(['the receipt is for another command']);
    expect(exitCode).toBe(4);
  });

  test('is refused for another database', async () => {
    await rehearsed();
    const other = await temporaryDatabase(18, { sql: 'CREATE TABLE jobs (id int)' });
    const { exitCode, apply: outcome } = await apply(other.url, COMMAND, { args: ['--receipt', file] });
    expect(outcome.reasons).toEqual([
      `the receipt is for the database ${target.name}, and this is ${other.name}`,
    ]);
    expect(exitCode).toBe(4);
  });

  test('is refused where the schema is another one by now', async () => {
    await rehearsed();
    await withClient(target.url, (client) =>
      client.query('ALTER TABLE jobs ADD COLUMN done bool; CREATE TABLE intruder (id int)'),
    );
    const { exitCode, apply: outcome } = await applied();
    expect(outcome.reasons).toEqual([
      "the target's schema is not the one that was rehearsed: + table public.intruder, ~ table public.jobs",
    ]);
    expect(exitCode).toBe(4);
  });

  test('of a rehearsal that did not pass is refused as the rehearsal was: exit code 1', async () => {
    const failing = sqlCommand('SELECT 1/0');
    await rehearse(target.url, failing, { args: ['--receipt', file] });
    const { exitCode, apply: outcome } = await apply(target.url, failing, { args: ['--receipt', file] });
    expect(outcome.reasons).toEqual(['the rehearsal did not pass']);
    expect(exitCode).toBe(1);
  });
});
