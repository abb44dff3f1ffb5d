import { randomBytes } from 'node:crypto';
import type { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { identifier, literal } from '../../../src/postgres/sql/quote.ts';
import { changedUrl, withCloning } from '../../helpers/cloning.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { OLDEST_AND_NEWEST, serverUrl } from '../../helpers/servers.ts';

const suffix = randomBytes(4).toString('hex');
const ODD = `role "of" 'odd' $name 🚀 ${suffix}`;
const OWNER = `owner_${suffix}`;
const MEMBER = `member_${suffix}`;
const STRANGER = `stranger_${suffix}`;
const PASSWORD = 'pass word';

/** Roles belong to the whole server: their names are this file's own. */
const ROLES = [
  `CREATE ROLE ${OWNER} LOGIN CREATEDB PASSWORD ${literal(PASSWORD)}`,
  `CREATE ROLE ${MEMBER} LOGIN CREATEDB PASSWORD ${literal(PASSWORD)} IN ROLE ${OWNER}`,
  `CREATE ROLE ${STRANGER} LOGIN CREATEDB PASSWORD ${literal(PASSWORD)}`,
  `CREATE ROLE ${identifier(ODD)}`,
];

beforeAll(async () => {
  for (const version of OLDEST_AND_NEWEST)
    await withClient(serverUrl(version), async (client) => {
      for (const statement of ROLES) await client.query(statement);
    });
});

afterAll(async () => {
  for (const version of OLDEST_AND_NEWEST)
    await withClient(serverUrl(version), async (client) => {
      for (const role of [MEMBER, STRANGER, OWNER, ODD]) await client.query(`DROP ROLE ${identifier(role)}`);
    });
});

/** Everything of the database's row and settings that a clone is to have in common with its target. */
async function catalogueOf(client: Client, name: string) {
  const { rows } = await client.query(
    `SELECT d.datdba, d.encoding, d.datcollate, d.datctype, d.datallowconn, d.datconnlimit, d.dattablespace,
            (SELECT array_agg(a::text ORDER BY a::text) FROM unnest(d.datacl) a) AS acl, d.datacl IS NULL AS default_acl,
            ARRAY(SELECT (s.setrole::regrole::text, s.setconfig)::text FROM pg_db_role_setting s
                   WHERE s.setdatabase = d.oid ORDER BY s.setrole) AS settings
       FROM pg_database d WHERE d.datname = $1`,
    [name],
  );
  return rows[0];
}

describe.each(OLDEST_AND_NEWEST)('PostgreSQL %d', (version) => {
  const admin = <T>(use: (client: Client) => Promise<T>) => withClient(serverUrl(version), use);

  async function target(statements: (database: string) => string[]) {
    const database = await temporaryDatabase(version);
    await admin(async (client) => {
      for (const statement of statements(identifier(database.name))) await client.query(statement);
    });
    return database;
  }

  async function cloneAs(user: string | undefined, database: { name: string; url: string }) {
    const url = user === undefined ? database.url : changedUrl(database.url, { user, password: PASSWORD });
    return withCloning(url, {}, async ({ make }) => {
      const clone = await make();
      const [of, copy] = await admin(async (client) => [
        await catalogueOf(client, database.name),
        await catalogueOf(client, clone.database),
      ]);
      return { of, copy, notCarried: clone.notCarried.map(({ property }) => property) };
    });
  }

  test('carries the owner, the connection limit and every kind of setting exactly', async () => {
    const database = await target((name) => [
      `ALTER DATABASE ${name} OWNER TO ${OWNER}`,
      `ALTER DATABASE ${name} CONNECTION LIMIT 7`,
      `ALTER DATABASE ${name} SET search_path TO "$user", public, 'it''s', 'a "b", c', '🚀', 'A', '${'x'.repeat(90)}'`,
      `ALTER DATABASE ${name} SET temp_tablespaces TO ''`,
      `ALTER ROLE ${identifier(ODD)} IN DATABASE ${name} SET session_preload_libraries TO '${'x'.repeat(90)}', ''`,
      `ALTER DATABASE ${name} SET DateStyle TO 'ISO, DMY'`,
      `ALTER DATABASE ${name} SET TimeZone TO 'Europe/Berlin'`,
      `ALTER DATABASE ${name} SET shop.name TO 'a=b, "c" \\ ''d''
second line'`,
      `ALTER DATABASE ${name} SET shop.empty TO ''`,
      `ALTER DATABASE ${name} SET statement_timeout TO '90s'`,
      `ALTER DATABASE ${name} SET default_transaction_read_only TO on`,
      `ALTER ROLE ${identifier(ODD)} IN DATABASE ${name} SET search_path TO ''`,
      `ALTER ROLE ${identifier(ODD)} IN DATABASE ${name} SET work_mem TO '8MB'`,
      `ALTER ROLE ${MEMBER} IN DATABASE ${name} SET role TO ${OWNER}`,
    ]);
    const { of, copy, notCarried } = await cloneAs(undefined, database);
    expect(copy).toEqual(of);
    expect(copy).toMatchObject({ datconnlimit: 7, datallowconn: true });
    expect(notCarried).toEqual([]);
  });

  test('carries privileges with their grantors and grant options', async () => {
    const database = await target((name) => [
      `ALTER DATABASE ${name} OWNER TO ${OWNER}`,
      `REVOKE CONNECT ON DATABASE ${name} FROM PUBLIC`,
      `GRANT CONNECT ON DATABASE ${name} TO ${STRANGER} WITH GRANT OPTION`,
      `SET ROLE ${STRANGER}`,
      `GRANT CONNECT ON DATABASE ${name} TO ${identifier(ODD)}`,
      'RESET ROLE',
      `GRANT CREATE, TEMPORARY ON DATABASE ${name} TO ${MEMBER}`,
    ]);
    const { of, copy, notCarried } = await cloneAs(undefined, database);
    expect(copy).toEqual(of);
    expect(notCarried).toEqual([]);
  });

  test('carries privileges that are all revoked, and default ones', async () => {
    const closed = await target((name) => [`REVOKE ALL ON DATABASE ${name} FROM PUBLIC, CURRENT_USER`]);
    const first = await cloneAs(undefined, closed);
    expect(first.copy).toEqual(first.of);
    expect(first.copy).toMatchObject({ default_acl: false, acl: null });
    const second = await cloneAs(undefined, await target(() => []));
    expect(second.copy).toEqual(second.of);
    expect(second.copy).toMatchObject({ default_acl: true });
  });

  test('a member of the owner that is no superuser carries all that it may, and names the rest', async () => {
    const database = await target((name) => [
      `ALTER DATABASE ${name} OWNER TO ${OWNER}`,
      `REVOKE CONNECT ON DATABASE ${name} FROM PUBLIC`,
      `GRANT CONNECT ON DATABASE ${name} TO ${STRANGER} WITH GRANT OPTION`,
      `SET ROLE ${STRANGER}`,
      `GRANT CONNECT ON DATABASE ${name} TO ${identifier(ODD)}`,
      'RESET ROLE',
      `ALTER DATABASE ${name} SET work_mem TO '8MB'`,
      `ALTER DATABASE ${name} SET log_min_duration_statement TO 5`,
      `ALTER ROLE ${identifier(ODD)} IN DATABASE ${name} SET work_mem TO '9MB'`,
    ]);
    const { of, copy, notCarried } = await cloneAs(MEMBER, database);
    expect(notCarried).toEqual([
      'setting log_min_duration_statement',
      `setting work_mem of role ${ODD}`,
      `privilege CONNECT of ${ODD}, granted by ${STRANGER}`,
    ]);
    expect(copy.datdba).toBe(of.datdba);
    expect(copy.settings).toEqual(['(-,{work_mem=8MB})']);
    expect(copy.acl).toEqual(of.acl.filter((item: string) => !item.includes('odd')));
  });

  test('a role that may clone a template, and is not its owner, keeps the clone, which it could not drop else', async () => {
    const database = await target((name) => [
      `ALTER DATABASE ${name} OWNER TO ${OWNER}`,
      `ALTER DATABASE ${name} IS_TEMPLATE true`,
      `REVOKE CONNECT ON DATABASE ${name} FROM PUBLIC`,
      `GRANT CONNECT ON DATABASE ${name} TO ${STRANGER}`,
    ]);
    try {
      const { copy, notCarried } = await cloneAs(STRANGER, database);
      expect(notCarried).toEqual([`owner ${OWNER}`]);
      // Nobody gets in who may not get into the target.
      expect(copy.acl).not.toContainEqual(expect.stringMatching(/^=[CT]*c/));
    } finally {
      await admin((client) => client.query(`ALTER DATABASE ${identifier(database.name)} IS_TEMPLATE false`));
    }
  });

  test('a member that inherits nothing keeps the clone of a template too', async () => {
    const database = await target((name) => [
      `ALTER DATABASE ${name} OWNER TO ${OWNER}`,
      `ALTER DATABASE ${name} IS_TEMPLATE true`,
    ]);
    const aloof = `aloof_${suffix}_${version}`;
    await admin((client) =>
      client.query(
        `CREATE ROLE ${aloof} LOGIN CREATEDB NOINHERIT PASSWORD ${literal(PASSWORD)} IN ROLE ${OWNER}`,
      ),
    );
    try {
      const { notCarried } = await cloneAs(aloof, database);
      expect(notCarried).toEqual([`owner ${OWNER}`]);
    } finally {
      await admin(async (client) => {
        await client.query(`ALTER DATABASE ${identifier(database.name)} IS_TEMPLATE false`);
        await client.query(`DROP ROLE ${aloof}`);
      });
    }
  });

  test('databases are dropped before their roles', async () => {
    await admin(async (client) => {
      const { rows } = await client.query<{ datname: string }>(
        `SELECT datname FROM pg_database WHERE datdba = $1::regrole`,
        [OWNER],
      );
      for (const { datname } of rows) {
        expect(datname).toMatch(/^test_/);
        await client.query(`DROP DATABASE ${identifier(datname)}`);
      }
      const acl = await client.query<{ datname: string }>(
        `SELECT datname FROM pg_database WHERE datacl::text LIKE $1`,
        [`%${suffix}%`],
      );
      expect(acl.rows).toEqual([]);
    });
  });
});
