import { existsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { apply } from '../helpers/apply.ts';
import { sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { debianPrograms, type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';

const MADE = `CREATE TABLE made (id int PRIMARY KEY, note text);
  ALTER TABLE made ADD COLUMN late int DEFAULT 3; CREATE VIEW seen AS SELECT * FROM made;
  CREATE TYPE pair AS (one int, other int); CREATE INDEX by_sum ON made ((id + late))`;

// PostgreSQL 15.20 keeps a number of its own in pg_attribute.attoptions, another one for each column that is made.
describe("Debian's PostgreSQL 15", async () => {
  const { programs, obstacle } = await debianPrograms(15);
  const missing = skipReason(obstacle);
  const library = '/usr/lib/postgresql/15/lib/plpgsql_check.so';
  const unchecked =
    missing ||
    skipReason(existsSync(library) ? null : `${library} is missing: install postgresql-15-plpgsql-check`);
  let server: PlacedServer;

  beforeAll(async () => {
    if (!missing) server = await placedServer(15, { parent: tmpdir(), programs });
  });
  afterAll(() => server?.stop());

  describe.skipIf(missing)('has the schema that was rehearsed', () => {
    test.each(['template', 'cluster'])('after an apply with a clone by %s', async (method) => {
      const run = await apply(
        server.url,
        sqlCommand(MADE.replaceAll(/(made|seen|pair|by_sum)/g, `$1_${method}`)),
        {
          args: ['--clone', method],
        },
      );
      expect(run.apply).toMatchObject({ outcome: 'applied', reasons: [], schemaEqual: true });
      expect(run.exitCode).toBe(0);
      expect(run.report.schema?.unmodeled).toEqual([]);
    });

    test('before, once --down has undone the command', async () => {
      await withClient(server.url, (client) => client.query('CREATE TABLE kept (id int, note text)'));
      const down = 'exec psql -X -q "$DATABASE_URL" -c "ALTER TABLE kept ADD COLUMN note text"';
      const { report } = await rehearse(server.url, sqlCommand('ALTER TABLE kept DROP COLUMN note'), {
        args: ['--down', down],
      });
      expect(report.down).toMatchObject({ passed: true, schemaEqual: true, differences: [] });
    });
  });

  test.skipIf(missing)('whose readers take longer than the lock_timeout of a migration', async () => {
    const told = async (sql: string) => {
      const command = psqlCommand('-c', "SET lock_timeout = '20ms'", '-c', sql);
      const { report } = await rehearse(server.url, command, { args: ['--clone', 'cluster'] });
      return report.hazards.map(({ severity, code }) => `${severity} ${code}`);
    };
    await withClient(server.url, async (reader) => {
      await reader.query('CREATE TABLE busy (id int)');
      await reader.query('BEGIN');
      await reader.query('SELECT count(*) FROM busy');
      expect(await told('ALTER TABLE busy ADD COLUMN note text')).toEqual(['warning LOCK_TIMEOUT_TOO_SHORT']);
      expect(await told('CREATE INDEX CONCURRENTLY ON busy (id)')).toEqual([
        'warning CONCURRENTLY_WITH_LOCK_TIMEOUT',
      ]);
      await reader.query('COMMIT');
    });
  });

  test.skipIf(unchecked)(
    'with plpgsql_check: a function breaks that uses the dropped field of a record',
    async () => {
      const loop = 'FOR one IN SELECT * FROM read LOOP PERFORM one.gone; END LOOP';
      await withClient(server.url, (client) =>
        client.query(`CREATE EXTENSION plpgsql_check; CREATE TABLE read (id int, gone int);
        CREATE FUNCTION reads() RETURNS void LANGUAGE plpgsql AS 'DECLARE one record; BEGIN ${loop}; END'`),
      );
      const { report } = await rehearse(server.url, sqlCommand('ALTER TABLE read DROP COLUMN gone'));
      expect(report.hazards.filter(({ code }) => code === 'FUNCTION_BREAKS')).toMatchObject([
        { message: 'the function public.reads() names gone, which is gone' },
      ]);
    },
  );
});
