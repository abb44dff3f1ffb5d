import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { compareWith, fingerprint } from '../../../src/schema/compare-schemas.ts';
import { takeSnapshot } from '../../../src/schema/schema-facts.ts';
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
  const name = `granted_${++databases}`;
  await withClient(server.url, (client) => client.query(`CREATE DATABASE ${name}`));
  const settings = parseSettings(server.url.replace(/\/postgres$/, `/${name}`), readEnvironment({}, '/'));
  const session = await openSession(settings, { purpose: 'test' });
  try {
    await session.query('SET search_path = public');
    await session.query(START);
    const before = await takeSnapshot(session);
    await session.query(migration);
    const { section, caveats } = await compareWith(before, session);
    expect(section.changes.length).toBeGreaterThan(0);
    expect(caveats).toEqual([]);
    // A new value of an enum cannot be taken away; everything else leads back.
    if (section.rollbackSql !== null && !migration.includes('ADD VALUE')) {
      await session.query(section.rollbackSql);
      expect(fingerprint(await takeSnapshot(session))).toBe(fingerprint(before));
    }
    expect(section.rollbackSql).not.toBeNull();
  } finally {
    await session.close();
  }
});
