import { Client } from 'pg';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/database.ts';
import { ownServer } from '../helpers/own-server.ts';
import { rehearseWatched as rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { withDatabase } from '../helpers/target-state.ts';
import { passingBy } from '../helpers/unseen-sessions.ts';

const TARGET = `CREATE TABLE jobs (id int); CREATE SEQUENCE numbers;
CREATE TABLE parts (id int) PARTITION BY RANGE (id);
CREATE TABLE parts_1 PARTITION OF parts FOR VALUES FROM (0) TO (100);
CREATE FUNCTION exec(q text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE q; END $$;
CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN EXECUTE TG_ARGV[0]; RETURN NEW; END $$;
CREATE TRIGGER audit AFTER INSERT ON parts_1 FOR EACH ROW EXECUTE FUNCTION audit('SELECT 1');
CREATE VIEW dependencies AS SELECT * FROM pg_description;
CREATE FUNCTION touch() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.id := NEW.id; RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON jobs FOR EACH ROW EXECUTE FUNCTION touch();`;

// Each on a server of its own, where nobody else is unless the test lets them in.
describe.each([14, 18] as const)('on PostgreSQL %i', (version) => {
  let server: Server;
  let target: string;

  beforeAll(async () => {
    server = await ownServer(version);
    target = withDatabase(server.url, 'shop');
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
    await withClient(target, (client) => client.query(TARGET));
  });

  afterAll(() => server.stop());

  const comingBy = (sql: string) => passingBy(target, temporaryFolder(), sql);

  /** The watch looks every 100 ms, and may see a session that lives for some milliseconds. */
  const RACE = { retry: 4 } as const;

  test('a rehearsal in which only we came to the target is proved: each of our sessions is accounted for', async () => {
    const { report, exitCode } = await rehearse(target, sqlCommand('INSERT INTO jobs VALUES (1)'));
    expect(report.target).toMatchObject({
      unchanged: true,
      changes: [],
      sessions: { command: 0, others: 0, unexplained: 0 },
    });
    expect(report.caveats.filter(({ path: at }) => at.startsWith('target'))).toEqual([]);
    expect(exitCode).toBe(0);
  });

  if (version === 18)
    describe('a clone in the target’s server', () => {
      const inTemplate = (sql: string) =>
        rehearse(target, sqlCommand(sql), { args: ['--clone', 'template'] });

      test.each([
        [`DO $$ BEGIN EXECUTE format('ALTER TABLE jobs ADD COLUMN %I int', 'two'); END $$`, 'a DO block'],
        [`SELECT exec('SELECT pg_cancel' || '_backend(0)')`, 'the function exec()'],
        [`SELECT query_to_xml('SELECT pg_cancel' || '_backend(0)', true, true, '')`, 'query_to_xml()'],
        ['INSERT INTO parts VALUES (1)', 'a trigger of parts'],
        ['DELETE FROM dependencies', 'the view dependencies'],
        [`ALTER FUNCTION exec(text) RENAME TO other; SELECT other('SELECT 1')`, 'the function exec()'],
      ])('is not proved after what is not known to be harmless: %s', async (sql, what) => {
        const { report, exitCode, stderr } = await inTemplate(sql);
        expect(exitCode, stderr).toBe(0);
        expect(report.target).toMatchObject({ unchanged: null, changes: [] });
        expect(report.caveats).toContainEqual(
          expect.objectContaining({
            path: 'target.unchanged',
            reason: expect.stringContaining(`it is not known what ${what}`),
          }),
        );
      });

      test('is proved after what migrations do', async () => {
        const { report, exitCode, stderr } = await inTemplate(`
        SET lock_timeout = '5s'; SELECT set_config('search_path', 'public', false);
        CREATE EXTENSION IF NOT EXISTS pgcrypto;
        CREATE TYPE mood AS ENUM ('sad', 'glad');
        CREATE TABLE people (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, key uuid DEFAULT gen_random_uuid(),
          mood mood, at timestamptz NOT NULL DEFAULT now(), twice int GENERATED ALWAYS AS (id * 2) STORED);
        CREATE FUNCTION stamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.at := now(); RETURN NEW; END $$;
        CREATE TRIGGER stamp BEFORE UPDATE ON people FOR EACH ROW EXECUTE FUNCTION stamp();
        INSERT INTO people (mood) VALUES ('sad'); UPDATE people SET mood = 'glad'; UPDATE jobs SET id = 1;
        CREATE VIEW glad AS SELECT * FROM people WHERE mood = 'glad';
        CREATE MATERIALIZED VIEW moods AS SELECT mood, count(*) FROM people GROUP BY mood;
        REFRESH MATERIALIZED VIEW moods;
        CREATE TABLE parts_2 PARTITION OF parts FOR VALUES FROM (100) TO (200);
        DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_class WHERE relname = 'x') THEN CREATE TABLE x (id int); END IF; END $$;
        DO $$ BEGIN EXECUTE 'ALTER TABLE jobs ADD COLUMN one int'; END $$;
        CREATE FUNCTION many() RETURNS bigint LANGUAGE sql STABLE AS 'SELECT count(*) FROM people'; SELECT many();
        CREATE INDEX ON people (mood); COMMENT ON TABLE people IS 'people'; GRANT SELECT ON people TO PUBLIC`);
        expect(exitCode, stderr).toBe(0);
        expect(report.caveats.filter(({ path: at }) => at === 'target.unchanged')).toEqual([]);
        expect(report.target).toMatchObject({ unchanged: true, changes: [] });
      });

      test('is said beforehand, with what gives the proof', async () => {
        const options = { env: { DATABASE_URL: target } };
        const { stdout } = await safemigrate(['--plan', '--clone', 'template', '--', 'true'], options);
        expect(stdout).toContain(
          'it cannot be verified that the target is unchanged; a clone in a private server gives the proof',
        );
      });
    });

  test(
    'rows that a session wrote which nobody saw, on a server without others: exit code 5',
    RACE,
    async () => {
      const { report, exitCode } = await rehearse(target, comingBy('INSERT INTO jobs VALUES (2), (3)'));
      expect(report.targetConnections).toEqual([]);
      expect(report.target).toMatchObject({
        unchanged: false,
        sessions: { unexplained: 1 },
        changes: [{ what: 'rows were written (2 of public.jobs)', madeBy: 'unknown' }],
      });
      expect(exitCode).toBe(5);
    },
  );

  test('a sequence that such a session moved is a change as well', RACE, async () => {
    const { report, exitCode } = await rehearse(target, comingBy(`SELECT setval('numbers', 100)`));
    expect(report.targetConnections).toEqual([]);
    expect(report.target.changes).toMatchObject([{ what: 'sequences were used', madeBy: 'unknown' }]);
    expect(exitCode).toBe(5);
  });

  describe('with somebody else on the server', () => {
    let somebody: Client;

    beforeAll(async () => {
      somebody = new Client(server.url);
      await somebody.connect();
    });

    afterAll(() => somebody.end());

    test('it is not proved unchanged: one caveat, and the verdict is the command’s', RACE, async () => {
      const { report, exitCode } = await rehearse(target, comingBy('INSERT INTO jobs VALUES (4)'));
      expect(report.target).toMatchObject({ unchanged: null, changes: [], sessions: { unexplained: 1 } });
      expect(report.caveats.filter(({ path: at }) => at === 'target.unchanged')).toEqual([
        { path: 'target.unchanged', kind: 'unmeasured', reason: expect.stringContaining('1 session came') },
      ]);
      expect(exitCode).toBe(0);
    });

    test('--require-proof fails then, and a person reads why in the first lines', RACE, async () => {
      const { exitCode, stderr } = await safemigrate(
        ['--sandbox', 'off', '--require-proof', '--', ...comingBy('INSERT INTO jobs VALUES (5)')],
        {
          env: { DATABASE_URL: target },
        },
      );
      const report = stderr.slice(stderr.indexOf('DID NOT PASS'));
      expect(report.split('\n').slice(0, 5).join(' ').replace(/\s+/g, ' ')).toMatch(
        /--require-proof.*Could not verify that the target is unchanged: 1 session came/,
      );
      expect(exitCode).toBe(1);
    });
  });

  test('what somebody else writes in a session that is seen does not matter', async () => {
    const waiting = scriptCommand(
      `const client = await connect();
       await client.query('CREATE TABLE notes (id int)');
       console.error('waiting');
       await new Promise((resolve) => process.stdin.once('data', resolve));
       await client.end();
       process.stdin.destroy();`,
    );
    const somebody = new Client(target);
    try {
      const visit = async () => {
        await somebody.connect();
        await somebody.query('INSERT INTO jobs VALUES (6)');
        return 'go\n';
      };
      const { report, exitCode } = await rehearse(target, waiting, { typed: [[/waiting/, visit]] });
      expect(report.target).toMatchObject({
        unchanged: true,
        changes: [],
        sessions: { others: 1, unexplained: 0 },
      });
      expect(exitCode).toBe(0);
    } finally {
      await somebody.end();
    }
  });

  afterEach(() => withClient(target, (client) => client.query('TRUNCATE jobs')));
});
