import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { compareWith, fingerprint } from '../../../src/schema/compare-schemas.ts';
import { type Snapshot, takeSnapshot } from '../../../src/schema/schema-facts.ts';
import { withClient } from '../../helpers/client.ts';
import { ownServer } from '../../helpers/own-server.ts';

const START = `
CREATE TYPE public.status AS ENUM ('open', 'paid');
CREATE TABLE public.orders (id bigint PRIMARY KEY, status public.status);
CREATE TABLE public.audit_log (id bigint);
CREATE VIEW public.open_orders AS SELECT id FROM public.orders WHERE status = 'open';
GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader;
GRANT UPDATE (status) ON public.orders TO reader, app WITH GRANT OPTION;
`;

/** On a server of its own, because roles belong to all of its databases. */
let server: Server;
let databases = 0;

beforeAll(async () => {
  server = await ownServer(18);
  await withClient(server.url, (client) => client.query('CREATE ROLE reader; CREATE ROLE app'));
});
afterAll(() => server.stop());

test.each([
  'DROP TABLE audit_log',
  'DROP VIEW open_orders',
  'REVOKE SELECT ON orders FROM reader',
  'GRANT INSERT ON orders TO reader, app',
  'GRANT SELECT (id) ON orders TO app; GRANT UPDATE ON orders TO app',
  'REVOKE ALL ON orders FROM app CASCADE',
  'CREATE TABLE notes (id bigint); GRANT SELECT ON notes TO reader',
  "ALTER TYPE status ADD VALUE 'shipped'",
  'DROP VIEW open_orders; ALTER TABLE orders ALTER COLUMN id TYPE integer',
  'GRANT ALL ON orders TO app WITH GRANT OPTION; ALTER TABLE orders OWNER TO app',
])('privileges of other roles stand in no way of comparing: %s', async (migration) => {
  await migrated(START, migration, async (session, before) => {
    const { section, caveats } = await compareWith(before, session);
    expect(section.changes.length).toBeGreaterThan(0);
    expect(caveats).toEqual([]);
    // A new value of an enum cannot be taken away; everything else leads back.
    if (section.rollbackSql !== null && !migration.includes('ADD VALUE')) {
      await session.query(section.rollbackSql);
      expect(fingerprint(await takeSnapshot(session))).toBe(fingerprint(before));
    }
    expect(section.rollbackSql).not.toBeNull();
  });
});

test.each([
  ['GRANT SELECT ON audit_log TO app', ['grant']],
  ['GRANT INSERT ON orders TO reader', ['grant']],
  ['GRANT INSERT ON orders TO reader WITH GRANT OPTION', ['grant']],
  ['REVOKE GRANT OPTION FOR UPDATE (status) ON orders FROM app', ['revoke', 'grant']],
  ['REVOKE INSERT ON orders FROM CURRENT_USER', ['revoke', 'grant']],
  ['REVOKE ALL ON orders FROM CURRENT_USER', ['revoke']],
  ['REVOKE SELECT ON audit_log FROM reader', ['revoke']],
  ['REVOKE SELECT ON audit_log FROM reader; GRANT INSERT ON audit_log TO reader', ['revoke', 'grant']],
  ['REVOKE EXECUTE ON FUNCTION one() FROM PUBLIC', ['revoke']],
  [
    'CREATE FUNCTION two() RETURNS int RETURN 2; REVOKE EXECUTE ON FUNCTION two() FROM PUBLIC',
    ['create', 'revoke'],
  ],
  ['CREATE TABLE notes (id bigint); GRANT SELECT ON notes TO reader', ['create']],
])('what is revoked only to be granted again is no change: %s', async (migration, verbs) => {
  const start = `${START} CREATE FUNCTION one() RETURNS int RETURN 1`;
  await migrated(start, migration, async (session, before) => {
    const { section } = await compareWith(before, session);
    expect([...new Set(section.changes.map(({ verb }) => verb))]).toEqual(verbs);
    await session.query(section.rollbackSql ?? '');
    expect(fingerprint(await takeSnapshot(session))).toBe(fingerprint(before));
  });
});

test('PUBLIC is no role, and has no quotes', async () => {
  const migration =
    'ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO PUBLIC; ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO "Reader"';
  await migrated('CREATE ROLE "Reader"', migration, async (session, before) => {
    const { section } = await compareWith(before, session);
    expect(section.changes.map(({ object }) => object).sort()).toEqual([
      'postgres for "Reader"',
      'postgres for PUBLIC',
    ]);
  });
});

/** Runs the migration in a database of its own. @param use is given the schema of before. */
async function migrated(
  start: string,
  migration: string,
  use: (session: Session, before: Snapshot) => Promise<void>,
): Promise<void> {
  const name = `granted_${++databases}`;
  await withClient(server.url, (client) => client.query(`CREATE DATABASE ${name}`));
  const settings = parseSettings(server.url.replace(/\/postgres$/, `/${name}`), readEnvironment({}, '/'));
  const session = await openSession(settings, { purpose: 'test' });
  try {
    await session.query('SET search_path = public');
    await session.query(start);
    const before = await takeSnapshot(session);
    await session.query(migration);
    await use(session, before);
  } finally {
    await session.close();
  }
}
