import { describe, expect, test } from 'vitest';
import { readTraffic } from '../../../src/database/read-traffic.ts';
import { readCatalogueBefore, readUnindexedForeignKeys } from '../../../src/observe/catalogue-facts.ts';
import { grantsOnMade } from '../../../src/observe/effects/missing-grants.ts';
import { readRelationsBefore } from '../../../src/observe/tables-before.ts';
import {
  FIRST_USER_OID,
  QUALIFIED_NAME,
  RELATIONS_AND_SCHEMAS,
  USER_SCHEMA,
} from '../../../src/postgres/catalogue/user-objects.ts';
import { withClient } from '../../helpers/client.ts';
import { scratch } from '../../helpers/scratch.ts';
import { VERSIONS } from '../../helpers/servers.ts';

describe.each(VERSIONS)('on %d', (version) => {
  test('the schemas of users are those that the server did not make, without temporary ones', async () => {
    const { session, drop } = await scratch(version);
    try {
      await session.query(`
        CREATE SCHEMA pgx; CREATE SCHEMA "Pg_x"; CREATE SCHEMA "information";
        CREATE TABLE pgx.a (id int, note text); CREATE TABLE "Pg_x"."B" (id int); CREATE VIEW information.c AS SELECT 1 AS one;
        CREATE TEMP TABLE kept (id int, note text); CREATE TEMP VIEW seen AS SELECT 1 AS one`);
      const names = await session.query<{ name: string; isNew: boolean }>(
        `select ${QUALIFIED_NAME} as name, c.oid >= ${FIRST_USER_OID} as "isNew"
           from ${RELATIONS_AND_SCHEMAS} where ${USER_SCHEMA} order by 1`,
      );
      expect([...names]).toEqual(
        ['"Pg_x"."B"', 'information.c', 'pgx.a'].map((name) => ({ name, isNew: true })),
      );
    } finally {
      await drop();
    }
  });

  test('temporary tables of other sessions are no part of what is known of a database', async () => {
    const { url, session, drop } = await scratch(version, 'CREATE TABLE orders (id int PRIMARY KEY)');
    try {
      await withClient(url, async (client) => {
        await client.query(`
          CREATE TEMP TABLE basket (id int PRIMARY KEY, CHECK (id > 0));
          CREATE TEMP TABLE item (basket int REFERENCES basket)`);
        await client.query('BEGIN; LOCK TABLE basket');
        expect([...(await readRelationsBefore(session)).keys()]).toEqual(['public.orders']);
        expect((await readCatalogueBefore(session)).checks).toEqual([]);
        expect([...(await readUnindexedForeignKeys(session)).keys()]).toEqual([]);
        const { holders, tableOfIndex } = await readTraffic(session);
        expect(holders.map(({ relation }) => relation)).toEqual([]);
        expect([...tableOfIndex.values()]).toEqual(['public.orders']);
      });
    } finally {
      await drop();
    }
  });

  test('relations of an extension neither lack a grant nor are expected to have one', async () => {
    const { session, drop } = await scratch(version);
    const role = `reader_${version}`;
    try {
      await session.query(`
        DROP ROLE IF EXISTS ${role}; CREATE ROLE ${role} LOGIN;
        CREATE TABLE a (id int); CREATE TABLE b (id int); CREATE TABLE c (id int); GRANT SELECT ON a, b, c TO ${role};
        CREATE TABLE shipped (id int); CREATE TABLE delivered (id int); CREATE TABLE added (id int);
        ALTER EXTENSION plpgsql ADD TABLE shipped; ALTER EXTENSION plpgsql ADD TABLE delivered`);
      const { missingGrants: missing } = await grantsOnMade(
        session,
        ['public.added', 'public.delivered'],
        new Map(),
      );
      expect(missing.map(({ relation, role: who }) => [relation, who])).toEqual([['public.added', role]]);
    } finally {
      await session.query(`DROP OWNED BY ${role}; DROP ROLE ${role}`);
      await drop();
    }
  });
});
