import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { psqlCommand, rehearse } from '../../helpers/rehearse.ts';
import { NEWEST, serverUrl, useOwnServers } from '../../helpers/servers.ts';

const SETUP = `
  CREATE SCHEMA extensions; CREATE SCHEMA elsewhere;
  CREATE EXTENSION pg_trgm; CREATE EXTENSION pgcrypto; CREATE EXTENSION hstore SCHEMA elsewhere;
  CREATE TABLE users (id int PRIMARY KEY, name text, digest bytea);
  CREATE FUNCTION search(q text) RETURNS SETOF users LANGUAGE plpgsql STABLE AS
    'BEGIN RETURN QUERY SELECT * FROM users WHERE name % q; END';
  CREATE FUNCTION alike(q text) RETURNS SETOF int LANGUAGE sql STABLE AS 'SELECT id FROM users WHERE similarity(name, q) > 0.3';
  CREATE FUNCTION digested() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN NEW.digest := digest(NEW.name, ''sha256''); RETURN NEW; END';
  CREATE TRIGGER digested BEFORE INSERT ON users FOR EACH ROW EXECUTE FUNCTION digested();
  CREATE FUNCTION qualified(q text) RETURNS bytea LANGUAGE sql STABLE AS 'SELECT pg_catalog.sha256(q::bytea)';`;
const MOVE = `ALTER EXTENSION hstore SET SCHEMA extensions; ALTER EXTENSION pg_trgm SET SCHEMA extensions; ALTER EXTENSION pgcrypto SET SCHEMA extensions;`;
const path = (schemas: string, role = '') =>
  `DO $$ BEGIN EXECUTE format('ALTER ${role === '' ? '' : `ROLE ${role} IN `}DATABASE %I SET search_path = ${schemas}', current_database()); END $$;`;

describe.each(NEWEST)('extensions that move, on PostgreSQL %i', (version) => {
  let database: TemporaryDatabase;

  beforeAll(async () => {
    await useOwnServers(version);
    await withClient(serverUrl(version), (client) => client.query('CREATE ROLE moved_app LOGIN'));
    database = await temporaryDatabase(version, { sql: SETUP });
  }, 120_000);
  afterAll(() => database.drop());

  const toldFor = async (sql: string) => {
    const { report } = await rehearse(database.url, psqlCommand('-c', sql));
    expect(report.command?.exitCode, sql).toBe(0);
    return report.hazards.filter(
      ({ code, severity }) =>
        severity !== 'notice' && (code === 'OBJECT_RENAMED' || code === 'FUNCTION_BREAKS'),
    );
  };

  test('are told of, with the functions whose bodies name what belongs to them', async () => {
    const told = await toldFor(MOVE);
    expect(told.map(({ code, message }) => `${code} ${message.split(',')[0]}`).sort()).toEqual([
      'FUNCTION_BREAKS the function public.alike(text) no longer works',
      'FUNCTION_BREAKS the function public.digested() no longer works: writes to public.users run it and fail',
      'FUNCTION_BREAKS the function public.search(text) no longer works',
      'OBJECT_RENAMED the extension pg_trgm moves from public to extensions',
      'OBJECT_RENAMED the extension pgcrypto moves from public to extensions',
    ]);
    expect(told.find(({ message }) => message.includes('pg_trgm'))).toMatchObject({
      statement: expect.any(Number),
      evidence: 'search_path of the database: "$user", public',
      advice: expect.stringContaining('SET search_path = "$user", public, extensions;'),
    });
  });

  test('are no hazard where the new schema is in the search path', async () => {
    expect(await toldFor(`${path('public, extensions')} ${MOVE}`)).toEqual([]);
  });

  test('are one for a role with its own search path', async () => {
    const sql = `${path('public, extensions')} ${path('public', 'moved_app')} ALTER EXTENSION pg_trgm SET SCHEMA extensions`;
    expect(await toldFor(sql)).toMatchObject([
      { code: 'OBJECT_RENAMED', evidence: 'search_path of moved_app: public' },
    ]);
  });
});
