import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

const RELEASES = fileURLToPath(new URL('../../fixtures/applications/node', import.meta.url));
const OLD = { SAFEMIGRATE_APP_DIR: path.join(RELEASES, 'old') };
const NEW = `cd '${path.join(RELEASES, 'new')}' && npm test`;

let target: TemporaryDatabase;

beforeAll(() => useOwnServers(18));
beforeAll(async () => {
  target = await temporaryDatabase(18, {
    sql: `CREATE TABLE people (id serial PRIMARY KEY, name text NOT NULL, nick text);
      CREATE TABLE settings (owner int, key text, value text); CREATE UNIQUE INDEX settings_key ON settings (key)`,
  });
});

test('a dropped column that the old release reads fails its tests on the migrated clone only', async () => {
  const drop = sqlCommand('ALTER TABLE people DROP COLUMN nick');
  const { report, exitCode, stderr } = await rehearse(target.url, drop, {
    args: ['--app', 'npm test'],
    env: OLD,
  });
  expect(exitCode).toBe(1);
  expect(stderr.match(/(?<=npm test of the old release, ).*(?=:$)/gm)).toEqual([
    'on the migrated clone',
    'on a clone that is not migrated',
    'once more on the migrated clone',
  ]);
  expect(report.app).toEqual([
    expect.objectContaining({
      release: 'old',
      command: 'npm test',
      result: 'breaks',
      before: expect.objectContaining({ exitCode: 0 }),
      after: expect.objectContaining({ exitCode: 1 }),
    }),
  ]);
  expect(report.app?.[0]?.failed.map(({ sqlstate, sql }) => `${sqlstate} ${sql}`).sort()).toEqual([
    '42703 INSERT INTO people (name, nick) VALUES ($1, $2) RETURNING id',
    '42703 SELECT id, name, nick FROM people WHERE id = $1',
  ]);
  const [hazard] = report.hazards.filter(({ code }) => code === 'APPLICATION_BREAKS');
  expect(hazard).toMatchObject({ severity: 'error', evidence: expect.stringContaining('42703') });
  expect(report.target.changes).toEqual([]);
  expect(report.cleanup.failed).toEqual([]);
});

test('a unique index for more columns fails ON CONFLICT of the old release', async () => {
  const upsert = `INSERT INTO settings (key, value) VALUES ('theme', 'dark') ON CONFLICT (key) DO UPDATE SET value = excluded.value`;
  const wider = sqlCommand(
    'DROP INDEX settings_key; CREATE UNIQUE INDEX settings_key ON settings (owner, key)',
  );
  const { report, exitCode } = await rehearse(target.url, wider, {
    args: ['--app', `psql -X -q -v ON_ERROR_STOP=1 "$DATABASE_URL" -c "${upsert}"`],
  });
  expect(exitCode).toBe(1);
  expect(report.app).toMatchObject([{ release: 'old', result: 'breaks', failed: [{ sqlstate: '42P10' }] }]);
});

test('a new column does not concern the old release, and the new one needs it', async () => {
  const add = sqlCommand('ALTER TABLE people ADD COLUMN nickname text');
  const drop = `psql -X -q "$DATABASE_URL" -c 'ALTER TABLE people DROP COLUMN nickname'`;
  const { report, exitCode } = await rehearse(target.url, add, {
    args: ['--app', 'npm test', '--down', drop],
    env: { ...OLD, SAFEMIGRATE_APP_NEW: NEW },
  });
  expect(exitCode).toBe(1);
  expect(report.app).toMatchObject([
    { release: 'old', result: 'works', before: null, after: { exitCode: 0 } },
    { release: 'new', result: 'needs migration', before: { exitCode: 1 }, after: { exitCode: 0 } },
  ]);
  expect(report.app?.[1]?.failed).toMatchObject([{ sqlstate: '42703' }]);
  expect(report.hazards.filter(({ severity }) => severity === 'error').map(({ code }) => code)).toEqual([
    'APPLICATION_NEEDS_MIGRATION',
  ]);
  // The rows that the tests left do not disturb the way back.
  expect(report.down?.passed).toBe(true);
});

test('checks that fail without the migration too, by chance or by hanging are no hazard', async () => {
  const psql = (sql: string) => `psql -X -q "$DATABASE_URL" -c '${sql}'`;
  const flag = path.join(temporaryFolder(), 'flag');
  const { report, exitCode } = await rehearse(
    target.url,
    sqlCommand('ALTER TABLE people ADD COLUMN age int'),
    {
      args: [
        ...['--app', psql('SELECT none FROM people')],
        ...['--app', `${psql('SELECT 1')}; test -e '${flag}' || { touch '${flag}'; exit 1; }`],
        ...['--app', psql('SELECT pg_sleep(600)')],
      ],
      env: { SAFEMIGRATE_APP_TIMEOUT: '2s' },
    },
  );
  expect(exitCode, report.verdict.reasons.join()).toBe(0);
  expect(report.app?.map(({ result, after }) => [result, after.timedOut])).toEqual([
    ['fails either way', false],
    ['unsteady', false],
    ['fails either way', true],
  ]);
  expect(report.caveats.filter((caveat) => caveat.path === 'app')).toHaveLength(3);
});

test('a check that does not use the database of the target shows nothing, and does not pass', async () => {
  const { report, exitCode } = await rehearse(target.url, sqlCommand('ALTER TABLE people ADD age int'), {
    args: ['--app', 'true'],
  });
  expect(exitCode).toBe(1);
  expect(report.verdict.reasons).toEqual([
    'the checks of the application (--app, SAFEMIGRATE_APP_NEW) say nothing: true never connected to the clone',
  ]);
});
