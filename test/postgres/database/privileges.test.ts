import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { inspectTarget } from '../../../src/database/inspect.ts';
import { type Privilege, readPrivileges } from '../../../src/database/privileges.ts';
import type { Server } from '../../../src/local-server/embedded.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { swapObstacles } from '../../../src/swap/preflight.ts';
import { withClient } from '../../helpers/client.ts';
import { changedUrl } from '../../helpers/cloning.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { VERSIONS } from '../../helpers/servers.ts';

const ROLE = 'odd "role"';
const PASSWORD = 'of-the-odd-role';

describe.each(VERSIONS)('the rights that a role has and lacks, on PostgreSQL %d', (version) => {
  let server: Server;
  const admin = (sql: string, database = 'postgres') =>
    withClient(changedUrl(server.url, { database }), (client) => client.query(sql));

  beforeAll(async () => {
    server = await ownServer(version);
    await admin('CREATE ROLE "its owner"');
    await admin('CREATE DATABASE shop OWNER "its owner"');
    await admin('CREATE DATABASE of_superuser');
    await admin('CREATE ROLE "its powerful owner" IN ROLE postgres');
    await admin('CREATE DATABASE of_member OWNER "its powerful owner"');
  });
  afterAll(() => server.stop());

  async function read(
    database: string,
    who: { user?: string; password?: string } = {},
  ): Promise<Privilege[]> {
    const url = changedUrl(server.url, { database, ...who });
    const settings = parseSettings(url, readEnvironment({}, '/'));
    const target = await inspectTarget(settings, 'the test');
    const session = await openSession(settings, { database: 'postgres', purpose: 'test' });
    try {
      return await readPrivileges(session, target);
    } finally {
      await session.close();
    }
  }

  const odd = (database: string) => read(database, { user: ROLE, password: PASSWORD });
  const lacking = (privileges: readonly Privilege[]) => privileges.filter(({ held }) => !held);

  const isOwning = ({ right }: Privilege) => right.startsWith('membership in');

  test('a superuser lacks none', async () => {
    expect(lacking(await read('shop'))).toEqual([]);
  });

  test('each printed statement, run by a superuser, gives the right that stands beside it', async () => {
    await admin(`CREATE ROLE "odd ""role""" LOGIN PASSWORD '${PASSWORD}'`);
    const before = await odd('shop');
    expect(before.map(({ held }) => held)).not.toContain(true);
    // The owner's rights last: with them comes the right to read.
    const inTurn = before.sort((one, other) => Number(isOwning(one)) - Number(isOwning(other)));
    for (const { right, grant } of inTurn) {
      const without = lacking(await odd('shop')).map((privilege) => privilege.right);
      await admin(grant);
      const still = lacking(await odd('shop')).map((privilege) => privilege.right);
      expect(without).toContain(right);
      expect(still).toEqual(without.filter((other) => other !== right));
    }
  });

  test('and the statement beside it takes that right back', async () => {
    for (const { right, revoke } of await odd('shop')) {
      await admin(revoke);
      expect(lacking(await odd('shop')).map((privilege) => privilege.right)).toContain(right);
    }
  });

  test.each([
    ['a superuser', 'of_superuser', 'postgres'],
    ['a role that may become one', 'of_member', 'its powerful owner'],
  ])('nobody is told to become %s for the sake of a rehearsal or a swap', async (_, name, owner) => {
    const owning = (await odd(name)).find(isOwning);
    const grant = `ALTER DATABASE "${name}" OWNER TO "odd ""role""";`;
    expect(owning).toMatchObject({
      held: false,
      grant,
      revoke: `ALTER DATABASE "${name}" OWNER TO "${owner}";`,
    });
    expect(await waysOut(name)).toContain(`ALTER ROLE "odd ""role""" CREATEDB; ${grant}`);
    await admin(grant);
    expect((await odd(name)).find(isOwning)?.held).toBe(true);
  });

  /** What would let the odd role swap this database. */
  async function waysOut(database: string): Promise<string[]> {
    const url = changedUrl(server.url, { database, user: ROLE, password: PASSWORD });
    const settings = parseSettings(url, readEnvironment({}, '/'));
    const session = await openSession(settings, { database: 'postgres', purpose: 'test' });
    try {
      const target = await inspectTarget(settings, 'the test');
      const obstacles = await swapObstacles(session, target, false);
      return obstacles.map(({ wayOut }) => wayOut);
    } finally {
      await session.close();
    }
  }

  test('of the functions of a backup, those in the database that safemigrate sits in count', async () => {
    await admin(`CREATE ROLE elsewhere LOGIN PASSWORD '${PASSWORD}'`);
    const login = { user: 'elsewhere', password: PASSWORD };
    const backup = async () => (await read('shop', login)).find(({ right }) => right.startsWith('EXECUTE'));
    const found = await backup();
    expect(found?.purpose).toContain('in the database postgres');
    await admin(found?.grant ?? '', 'shop');
    expect((await backup())?.held).toBe(false);
    await admin(found?.grant ?? '');
    expect((await backup())?.held).toBe(true);
  });
});
