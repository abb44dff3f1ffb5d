import { readFileSync, statSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import type { AuditEntry } from '../../src/postgres/connection/audit.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { OLDEST_AND_NEWEST, serverUrl, useOwnServers } from '../helpers/servers.ts';
import { clonesOf, digestOf } from '../helpers/target-state.ts';

beforeAll(() => useOwnServers(...OLDEST_AND_NEWEST));

describe.each(OLDEST_AND_NEWEST)('on PostgreSQL %i', (version) => {
  let target: TemporaryDatabase;
  let env: NodeJS.ProcessEnv;

  beforeEach(async () => {
    target = await temporaryDatabase(version, { sql: 'CREATE TABLE jobs (id int)' });
    env = { DATABASE_URL: target.url };
    // Everything that a clone has to be given as well: a setting, a privilege, a limit.
    await withClient(serverUrl(version), (client) =>
      client.query(`ALTER DATABASE ${target.name} SET work_mem = '5MB';
        REVOKE ALL ON DATABASE ${target.name} FROM PUBLIC;
        ALTER DATABASE ${target.name} CONNECTION LIMIT 50`),
    );
  });

  afterEach(() => target.drop());

  const audited = (file: string): AuditEntry[] =>
    readFileSync(file, 'utf8')
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as AuditEntry);

  test('the plan lists every statement of the run that is more than reading', async () => {
    const folder = temporaryFolder();
    const plan = await safemigrate(['--plan', '--', ...sqlCommand('DROP TABLE jobs')], { env, folder });
    expect(plan.exitCode).toBe(0);
    expect(plan.stderr.replace(/^✓ .*\n/gm, '')).toBe('');
    expect(plan.stdout).toMatch(/^Already sent.*: \d+ statements that only read/m);
    const whole = await safemigrate(['--plan', '--verbose', '--', ...sqlCommand('DROP TABLE jobs')], {
      env,
      folder,
    });
    expect(whole.stdout).toMatch(/^ {2}\[postgres\] SELECT pg_try_advisory_lock/m);
    const ofApply = await safemigrate(['apply', '--plan', '--', ...sqlCommand('DROP TABLE jobs')], {
      env,
      folder,
    });
    expect(ofApply.exitCode, ofApply.stderr).toBe(0);
    expect(ofApply.stdout).toContain('If the rehearsal passes, the command runs on the target itself');
    expect(plan.stdout).not.toContain('If the rehearsal passes');
    const run = await safemigrate(['--audit', 'audit', '--', ...sqlCommand('DROP TABLE jobs')], {
      env,
      folder,
    });
    expect(run.exitCode, run.stderr).toBe(0);

    const planned = plan.stdout.split('\n').map(normalized);
    const changing = audited(path.join(folder, 'audit'))
      .filter(({ database }) => !database.includes('_rehearsal_'))
      .map(({ sql }) => normalized(sql))
      .filter((sql) => !/^(SELECT|WITH|SHOW|DECLARE|FETCH|CLOSE)\b/i.test(sql));
    expect(changing.length).toBeGreaterThan(5);
    expect(changing.filter((sql) => !planned.includes(sql))).toEqual([]);
  });

  test('the plan lists how sessions would be ended where that is allowed', async () => {
    const args = ['--plan', '--disconnect', 'idle', '--', 'true'];
    expect((await safemigrate(args, { env })).stdout).toContain('pg_terminate_backend');
    expect((await safemigrate(['--plan', '--', 'true'], { env })).stdout).not.toContain(
      'pg_terminate_backend',
    );
  });

  test('a plan sends nothing but reads, and never starts the command', async () => {
    const folder = temporaryFolder();
    const before = await digestOf(target.url);
    const { stdout } = await safemigrate(
      ['--plan', '--audit', 'audit', '--', 'sh', '-c', 'echo started; exit 9'],
      { env, folder },
    );
    expect(stdout).not.toMatch(/^started/m);
    expect(stdout).toContain('Nothing was changed.');
    for (const { sql } of audited(path.join(folder, 'audit')))
      expect(sql.trim()).toMatch(/^(SELECT|WITH)\b/i);
    expect(await digestOf(target.url)).toEqual(before);
    expect(await clonesOf(version, target.name)).toEqual([]);
  });
});

describe('the audit', () => {
  test('says of each statement when, where and why it was sent, in a file that only its owner reads', async () => {
    const target = await temporaryDatabase(18);
    const folder = temporaryFolder();
    const env = { DATABASE_URL: target.url };
    await safemigrate(['--audit', 'audit', '--', ...sqlCommand('CREATE TABLE jobs (id int)')], {
      env,
      folder,
    });
    const file = path.join(folder, 'audit');
    expect(statSync(file).mode & 0o077).toBe(0);
    const content = readFileSync(file, 'utf8');
    expect(content).not.toContain(new URL(target.url).password);
    for (const line of content.trimEnd().split('\n')) {
      expect(JSON.parse(line)).toEqual({
        at: expect.stringMatching(/^\d{4}-\d\d-\d\dT.*Z$/),
        database: expect.any(String),
        purpose: expect.stringMatching(/^\w+/),
        sql: expect.any(String),
        values: expect.any(Array),
      });
    }
    await target.drop();
  });

  test('one that cannot be written ends the run before anything is sent', async () => {
    const args = ['--audit', 'missing/audit', '--', ...sqlCommand('SELECT 1')];
    const { exitCode, stderr } = await safemigrate(args, {
      env: { DATABASE_URL: 'postgresql://localhost:1/x' },
    });
    expect(exitCode).toBe(2);
    expect(stderr).toContain('missing/audit');
  });
});

/** What is new in each run: its id, the limit and the lock key made of it, the clone's OID, the time limits. */
function normalized(sql: string): string {
  return sql
    .replace(/\s+/g, ' ')
    .replace(/;$/, '')
    .trim()
    .replace(/\b1[0-9a-z]{12}\b|(?<=_rehearsal_)[0-9a-z]{13}/g, 'RUN')
    .replace(/CONNECTION LIMIT 1\d{9}/g, 'CONNECTION LIMIT RUN')
    .replace(/("at":\{"database":"[^"]*","oid":)\d+/g, '$1OID')
    .replace(/(statement_timeout = )\d+/, '$1LIMIT');
}
