import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../helpers/database.ts';
import { rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { shareOf, useOwnServers } from '../helpers/servers.ts';

beforeAll(() => useOwnServers(14, 18));

const TEMPLATE = ['--clone', 'template'];
const DBLINK = 'CREATE EXTENSION dblink';
const HIDDEN = `DO $$ BEGIN EXECUTE 'CREATE EXT' || 'ENSION db' || 'link'; END $$`;

/** Sends each statement by itself, and stops at the first error. */
const statements = (...texts: string[]) =>
  scriptCommand(
    'const client = await connect(); for (const text of args) await client.query(text); await client.end();',
    ...texts,
  );

describe('a target through which other systems can be reached', () => {
  let linked: TemporaryDatabase;
  beforeAll(async () => {
    linked = await temporaryDatabase(18, { sql: DBLINK });
  });
  afterAll(() => linked.drop());

  test.each(['template', 'dump'])('is not cloned on its own server, by %s', async (method) => {
    const { exitCode, stderr } = await safemigrate(['--clone', method, '--', ...sqlCommand('SELECT 1')], {
      env: { DATABASE_URL: linked.url },
    });
    expect({ exitCode, stderr }).toEqual({
      exitCode: 3,
      stderr: expect.stringMatching(
        /the clone could reach other systems, because the target has: extension dblink[\s\S]*--permit external/,
      ),
    });
  });

  test('is cloned there where that is allowed, and the report says how exposed it is', async () => {
    const args = [...TEMPLATE, '--permit', 'external'];
    const { exitCode, report } = await rehearse(linked.url, sqlCommand('CREATE TABLE t ()'), { args });
    expect(exitCode).toBe(0);
    expect(report.clone).toMatchObject({
      containment: 'target-server',
      exposure: expect.stringContaining('role postgres could change roles and settings, run programs'),
    });
  });

  test('may have wrappers and servers behind which nothing is', async () => {
    const sql = 'CREATE FOREIGN DATA WRAPPER w; CREATE SERVER s FOREIGN DATA WRAPPER w';
    const target = await temporaryDatabase(14, { sql });
    const { exitCode } = await rehearse(target.url, sqlCommand('CREATE TABLE t ()'), { args: TEMPLATE });
    expect(exitCode).toBe(0);
    await target.drop();
  });
});

const MADE_BY: readonly (readonly [sql: string, what: string])[] = [
  [DBLINK, 'CREATE EXTENSION dblink'],
  ['CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw', 'CREATE SERVER far'],
  ['CREATE EXTENSION plpython3u', 'CREATE EXTENSION plpython3u'],
  ['CREATE LANGUAGE plperlu', 'CREATE EXTENSION plperlu'],
  [
    `CREATE SUBSCRIPTION s CONNECTION 'dbname=x' PUBLICATION p WITH (connect = false)`,
    'CREATE SUBSCRIPTION s',
  ],
];

describe.each([14, 18] as const)(
  'on PostgreSQL %i a command that makes a way to other systems',
  (version) => {
    let target: TemporaryDatabase;
    beforeAll(async () => {
      target = await temporaryDatabase(version, {
        sql: `CREATE EXTENSION postgres_fdw; CREATE TABLE t (id int); CREATE FUNCTION plain() RETURNS int LANGUAGE sql AS 'SELECT 1'`,
      });
    });
    afterAll(() => target.drop());

    const refusedBy = async (...texts: string[]) => {
      const { exitCode, report } = await rehearse(target.url, statements(...texts), { args: TEMPLATE });
      return {
        exitCode,
        refused: report.command.refused,
        changed: [...new Set(report.schema?.changes.map(({ object }) => object))],
      };
    };

    test('by saying so is refused', async () => {
      const made = shareOf(version, MADE_BY);
      const { exitCode, report } = await rehearse(
        target.url,
        scriptCommand(
          `for (const sql of args) {
             const client = await connect();
             await client.query(sql).catch(() => { process.exitCode = 7; });
             await client.end();
           }`,
          ...made.map(([sql]) => sql),
        ),
        { args: TEMPLATE },
      );
      expect(exitCode).toBe(1);
      expect(report.command.refused).toEqual(
        made.map(([, what]) => ({ what, why: 'the clone could reach other systems through it' })),
      );
    });

    test('in a block of code is not let on', async () => {
      expect(await refusedBy(HIDDEN, 'CREATE TABLE after ()')).toMatchObject({
        exitCode: 1,
        refused: [{ what: 'CREATE TABLE', why: expect.stringContaining('has made the extension dblink') }],
        changed: ['dblink'],
      });
    });

    // From here on it is our own code, which is the same on all versions.
    if (version !== 18) return;

    test('in its last statement does not pass', async () => {
      expect(await refusedBy('CREATE TABLE before ()', HIDDEN)).toMatchObject({
        exitCode: 1,
        refused: [{ what: 'any further statement', why: expect.stringContaining('extension dblink') }],
      });
    });

    test('within a transaction is not let on after its end', async () => {
      const sent = ['BEGIN', HIDDEN, 'INSERT INTO t VALUES (1)', 'COMMIT', 'CREATE TABLE after ()'];
      expect(await refusedBy(...sent)).toMatchObject({ exitCode: 1, refused: [{ what: 'CREATE TABLE' }] });
    });

    test('passes where that is allowed', async () => {
      const args = [...TEMPLATE, '--permit', 'external'];
      const allowed = await rehearse(target.url, statements(DBLINK, 'CREATE TABLE after ()'), { args });
      expect(allowed).toMatchObject({ exitCode: 0, report: { command: { refused: [] } } });
    });

    test('is not suspected for what it calls', async () => {
      const sent = ['SELECT plain()', 'DO $$ BEGIN PERFORM plain(); END $$', 'INSERT INTO t VALUES (1)'];
      expect(await refusedBy(...sent)).toMatchObject({ exitCode: 0, refused: [] });
    });
  },
);
