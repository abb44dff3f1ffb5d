import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { Client } from 'pg';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type CliOptions, inTerminal, noTerminal, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../helpers/database.ts';
import { scriptCommand } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';
import { cannotUpgrade, NEW, serverToUpgrade } from '../helpers/upgrading.ts';

let target: TemporaryDatabase;

beforeAll(() => useOwnServers(18));

beforeEach(async () => {
  target = await temporaryDatabase(18, {
    name: 'shop',
    sql: 'CREATE TABLE users AS SELECT n AS id, md5(n::text) AS code FROM generate_series(1, 2000) n',
  });
});

afterEach(() => target.drop());

const COLUMNS = 80;
const LINES = 24;
// biome-ignore lint/suspicious/noControlCharactersInRegex: colours are escape sequences, and so is the erasing of a line
const UNSEEN = /[^\n]*\x1b\[2K|\x1b\[[0-9;]*m/g;

const MIGRATION = sqlCommand('CREATE TABLE made (id int)');
const DROPPING = sqlCommand('ALTER TABLE users DROP COLUMN code');

/** The lines that a terminal of 80 columns and 24 lines shows at the end, without what was erased. */
async function lastScreen(args: readonly string[], options: CliOptions = {}) {
  const env = { DATABASE_URL: target.url, ...options.env };
  const { output, exitCode } = await inTerminal(args, { ...options, env });
  const lines = output.replaceAll(UNSEEN, '').trimEnd().split(/\r?\n/).slice(-LINES);
  // A notice has SQL to be pasted.
  expect(lines.filter((line) => line.length > COLUMNS && !line.startsWith('•'))).toEqual([]);
  return { lines, verdict: lines.at(-1), exitCode, output };
}

describe.skipIf(skipReason(noTerminal))('the last line on a terminal is the verdict', () => {
  test('of a rehearsal that passed', async () => {
    const { lines, verdict } = await lastScreen(['--', ...MIGRATION]);
    expect(verdict).toMatch(/^✓ Passed, nothing was changed\. +Details: safemigrate show$/);
    const answers = lines.flatMap((line) => /^ {2}(Users|Schema|Data|Time|Target) /.exec(line)?.[1] ?? []);
    expect(answers).toEqual(['Users', 'Schema', 'Data', 'Time', 'Target']);
  });

  test('of one that did not pass, and the screen has the finding with its way out', async () => {
    const { lines, verdict } = await lastScreen(['--', ...DROPPING]);
    expect(verdict).toMatch(/^✗ Did not pass, nothing was changed\./);
    expect(lines.filter((line) => line.includes('COLUMN_DROPPED'))).toHaveLength(2);
    expect(lines.join('\n')).toContain(`Accept: --accept 'COLUMN_DROPPED:public.users="…"'`);
  });

  test('of a command that failed, whose headline is the error of the server', async () => {
    const { lines, verdict } = await lastScreen(['--', ...sqlCommand('ALTER TABLE nowhere ADD a int')]);
    expect(lines.join('\n')).toContain(
      '✗ DID NOT PASS: ERROR: relation "nowhere" does not exist (SQLSTATE 42P01)',
    );
    expect(verdict).toMatch(/^✗ Did not pass, nothing was changed\./);
  });

  test('of a rehearsal under load', async () => {
    const file = path.join(temporaryFolder(), 'load.sql');
    writeFileSync(file, 'SELECT count(*) FROM users;\n');
    const env = { SAFEMIGRATE_LOAD_CLIENTS: '1', SAFEMIGRATE_LOAD_WARMUP: '100ms' };
    const { verdict, lines } = await lastScreen(['--clone', 'cluster', '--load', file, '--', ...MIGRATION], {
      env,
    });
    expect(verdict, lines.join('\n')).toMatch(/^✓ Passed, nothing was changed\./);
    expect(lines.join('\n')).toMatch(/^ {2}Users {4}under load, /m);
  });

  test('of an apply, which does not repeat the rehearsal', async () => {
    const { verdict, output } = await lastScreen(['apply', '--', ...MIGRATION], {
      typed: [[/Go on\? \[y\/N\]/, 'y\n']],
    });
    expect(verdict).toMatch(/^✓ Applied to shop\S* in .*, as rehearsed\./);
    expect(output.match(/PASSED/g)).toHaveLength(1);
  });

  test('of an apply that was not confirmed', async () => {
    const { verdict } = await lastScreen(['apply', '--', ...MIGRATION], {
      typed: [[/Go on\? \[y\/N\]/, 'n\n']],
    });
    expect(verdict).toMatch(/^✗ Not applied, nothing was changed\./);
  });

  test('of an apply that is refused, since its rehearsal did not pass', async () => {
    const { verdict, lines } = await lastScreen(['apply', '--yes', '--', ...DROPPING]);
    expect(verdict).toMatch(/^✗ Not applied, nothing was changed\./);
    expect(lines.join('\n')).toContain('✗ COLUMN_DROPPED');
  });

  test('of an apply that loses values only if the name of the database is typed', async () => {
    const args = ['apply', '--accept', 'COLUMN_DROPPED="moved"', '--', ...DROPPING];
    const question = /Type the database's name to continue:/;
    const careless = await lastScreen(args, { typed: [[question, 'y\n']] });
    expect(careless.output).toContain(
      'Lost for good: drops column public.users.code: 2,000 of 2,000 rows had a',
    );
    expect(careless.verdict).toMatch(/^✗ Not applied, nothing was changed\./);
    const careful = await lastScreen(args, { typed: [[question, `${target.name}\n`]] });
    expect(careful.verdict).toMatch(/^✓ Applied to shop/);
  });

  test('of an apply that waited for somebody in vain', async () => {
    const blocker = new Client({ connectionString: target.url, application_name: 'nightly' });
    await blocker.connect();
    await blocker.query('BEGIN; SELECT * FROM users LIMIT 1');
    const { verdict, output } = await lastScreen(
      [
        'apply',
        '--yes',
        '--lock-timeout',
        '500ms',
        '--clone',
        'cluster',
        '--',
        ...sqlCommand('ALTER TABLE users ADD a int'),
      ],
      { env: { SAFEMIGRATE_RETRY_COUNT: '1' } },
    );
    await blocker.end();
    expect(verdict, output).toMatch(/^✗ Apply failed, shop\S* is as before\./);
    expect(output).toMatch(/to end that: SELECT pg_terminate_backend\(\d+\) or --unblock/);
    expect(output).toMatch(/Blocked by postgres\/nightly[^\n]*: pg_terminate_backend\(\d+\) or --unblock/);
  });

  test('of a swap', async () => {
    const { verdict } = await lastScreen(['swap', '--yes', '--', ...MIGRATION]);
    expect(verdict).toMatch(/^✓ Swapped: shop\S* is the migrated clone, closed for/);
  });

  test('of a rehearsal that Ctrl-C ended', async () => {
    const waiting = scriptCommand(
      `console.error('waiting'); await new Promise(() => setInterval(() => {}, 1000));`,
    );
    const { verdict } = await lastScreen(['--', ...waiting], { typed: [[/waiting/, '\u0003']] });
    expect(verdict).toMatch(/^✗ Did not pass, nothing was changed\.|^✗ Interrupted, nothing was changed\./);
  });

  test('of a wrong option', async () => {
    const { verdict, exitCode } = await lastScreen(['--pla', '--', ...MIGRATION]);
    expect(verdict).toBe('✗ Not started, nothing was changed.');
    expect(exitCode).toBe(2);
  });

  test('of a server that does not answer', async () => {
    const { verdict } = await lastScreen(['--', ...MIGRATION], {
      env: { DATABASE_URL: 'postgresql://postgres@127.0.0.1:1/shop' },
    });
    expect(verdict).toBe('✗ Could not rehearse, nothing was changed.');
  });
});

test.skipIf(noTerminal !== null || cannotUpgrade)(
  'the last line of an upgrade is the verdict, too',
  {
    timeout: 120_000,
  },
  async () => {
    const old = await serverToUpgrade();
    const args = ['upgrade', '--to', '18', '--new-bin', NEW.programs, '--modes', 'link', '--url', old.url];
    const { verdict } = await lastScreen(args);
    await old.stop();
    expect(verdict).toBe('✓ Passed: the upgrade to PostgreSQL 18; nothing was changed.');
  },
);
