import { randomBytes } from 'node:crypto';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { chooseMethod } from '../../../src/clone/choose.ts';
import { dump } from '../../../src/clone/dump.ts';
import type { Assessment, Clone, CloneContext, Possible } from '../../../src/clone/method.ts';
import { inspectTarget } from '../../../src/database/inspect.ts';
import { SafemigrateError } from '../../../src/errors.ts';
import { findClientPrograms } from '../../../src/local-server/client-programs.ts';
import { claimRun } from '../../../src/ownership/control-session.ts';
import { parseMark } from '../../../src/ownership/mark.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import { identifier, literal } from '../../../src/postgres/sql/quote.ts';
import { withoutClientPrograms } from '../../helpers/client-programs.ts';
import { type Cloning, changedUrl, withCloning } from '../../helpers/cloning.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { majorOf, serverUrl } from '../../helpers/servers.ts';

const suffix = randomBytes(4).toString('hex');
const MAKER = `dumper_${suffix}`;
const READER = `reader_${suffix}`;
const OTHER = `other_${suffix}`;
const PASSWORD = 'a secret word';

const SQL = `
CREATE TABLE t (id int PRIMARY KEY, body text);
INSERT INTO t SELECT n, md5(n::text) FROM generate_series(1, 2000) n;
CREATE TABLE log AS SELECT n FROM generate_series(1, 100) n;
CREATE SEQUENCE s START 7;
CREATE VIEW v AS SELECT id FROM t`;

const skip = await withoutClientPrograms('pg_dump', 'pg_restore');

beforeAll(() =>
  withClient(serverUrl(15), async (client) => {
    await client.query(`CREATE ROLE ${MAKER} LOGIN CREATEDB PASSWORD ${literal(PASSWORD)}`);
    await client.query(`CREATE ROLE ${READER} LOGIN PASSWORD ${literal(PASSWORD)}`);
    await client.query(`ALTER ROLE ${READER} SET search_path = app, public`);
    await client.query(`CREATE ROLE ${OTHER}`);
  }),
);

afterAll(() =>
  withClient(serverUrl(15), async (client) => {
    const { rows } = await client.query<{ datname: string }>(
      'SELECT datname FROM pg_database WHERE datdba = ANY ($1::regrole[])',
      [[MAKER, READER, OTHER]],
    );
    for (const { datname } of rows) await client.query(`DROP DATABASE ${identifier(datname)} WITH (FORCE)`);
    await client.query(`DROP ROLE ${MAKER}, ${READER}, ${OTHER}`);
  }),
);

async function make(cloning: Cloning, change: Partial<CloneContext> = {}): Promise<Clone> {
  const context = { ...cloning.context, ...change };
  const assessment = await dump.assess(context);
  expect(assessment).toMatchObject({ possible: true });
  return dump.create(context, assessment as Possible, cloning.scope);
}

/** What a session in the clone sees, as the command would arrive there. */
async function ask<Row extends object>(clone: Clone, sql: string): Promise<Row[]> {
  const session = await openSession(clone.connect, { purpose: 'test' });
  try {
    return await session.query<Row>(sql);
  } finally {
    await session.close();
  }
}

const databases = async (url: string) =>
  withClient(url, async (client) => {
    const { rows } = await client.query<{ datname: string }>('SELECT datname FROM pg_database');
    return rows.map(({ datname }) => datname);
  });

const as = (url: string, user: string) => changedUrl(url, { user, password: PASSWORD });

describe.skipIf(skip)('a dump into the same server', () => {
  test('holds what the target holds, with its settings, while a session in the target goes on', async () => {
    const database = await temporaryDatabase(15, { sql: SQL });
    await withClient(database.url, (client) =>
      client.query(`ALTER DATABASE ${database.name} SET search_path = "$user", app, public`),
    );
    const busy = new Client({ connectionString: database.url });
    await busy.connect();
    onTestFinished(() => busy.end());
    await busy.query('BEGIN; UPDATE t SET body = NULL WHERE id = 1');
    const name = await withCloning(database.url, { method: 'dump' }, async (cloning) => {
      const clone = await make(cloning);
      expect(clone).toMatchObject({ strategy: 'same-server', isolation: 'same-cluster', sharesRoles: true });
      expect(clone.touched.join('\n')).toMatch(/ACCESS SHARE/);
      const reasons = clone.caveats.map(({ reason }) => reason).join();
      expect(reasons).toContain('a damaged unique index of the target');
      // Roles are the same, and so are their settings.
      expect(reasons).not.toContain('row security');
      const [row] = await ask(
        clone,
        `SELECT (SELECT count(*) FROM public.t WHERE body IS NOT NULL) AS t, nextval('public.s') AS s,
                (SELECT reltuples FROM pg_class WHERE oid = 'public.t'::regclass) AS analysed`,
      );
      expect(row).toEqual({ t: '2000', s: '7', analysed: 2000 });
      await withClient(changedUrl(database.url, { database: clone.database }), async (client) => {
        expect((await client.query('SHOW search_path')).rows).toEqual([
          { search_path: '"$user", app, public' },
        ]);
        const { rows } = await client.query<{ comment: string; datconnlimit: number }>(
          `SELECT shobj_description(oid, 'pg_database') AS comment, datconnlimit FROM pg_database WHERE datname = $1`,
          [clone.database],
        );
        expect(parseMark(rows[0]?.comment ?? '')).toMatchObject({ run: cloning.context.run, state: 'ready' });
        expect(rows[0]?.datconnlimit).toBe(-1);
      });
      expect(await clone.uniqueBytes()).toBeGreaterThan(1_000_000);
      expect(cloning.events.some(({ type }) => type === 'progress')).toBe(true);
      return clone.database;
    });
    expect((await busy.query('SELECT body FROM t WHERE id = 1')).rows).toEqual([{ body: null }]);
    expect(await databases(database.url)).not.toContain(name);
  });

  test.each(["ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'", "LOCALE_PROVIDER icu ICU_LOCALE 'de'"])(
    'has the encoding and the locale of the target: %s',
    async (locale) => {
      const database = await temporaryDatabase(15);
      await withClient(serverUrl(15), async (client) => {
        await client.query(`DROP DATABASE ${database.name}`);
        await client.query(`CREATE DATABASE ${database.name} TEMPLATE template0 ${locale}`);
      });
      const sql = `SELECT pg_encoding_to_char(encoding) AS encoding, datcollate, datctype, datlocprovider, daticulocale
        FROM pg_database WHERE datname = current_database()`;
      await withCloning(database.url, { method: 'dump' }, async (cloning) => {
        const clone = await make(cloning);
        const wanted = await withClient(database.url, (client) => client.query(sql));
        expect(await ask(clone, sql)).toEqual(wanted.rows);
      });
    },
  );

  test('leaves out the rows that are not wanted', async () => {
    const database = await temporaryDatabase(15, { sql: SQL });
    await withCloning(database.url, { method: 'dump', excludeTableData: ['lo*'] }, async (cloning) => {
      const [row] = await ask(
        await make(cloning),
        'SELECT (SELECT count(*) FROM public.t)::int AS t, (SELECT count(*) FROM public.log)::int AS log',
      );
      expect(row).toEqual({ t: 2000, log: 0 });
    });
    await withCloning(database.url, { method: 'dump', schemaOnly: true }, async (cloning) => {
      const { method, considered } = await chooseMethod(cloning.context, 'auto');
      expect(method.id).toBe('dump');
      expect(considered.filter(({ assessment }) => assessment.possible)).toHaveLength(1);
      await expect(chooseMethod(cloning.context, 'template')).rejects.toThrow('it brings all rows');
      const clone = await make(cloning);
      expect(await ask(clone, 'SELECT count(*)::int AS n FROM public.t')).toEqual([{ n: 0 }]);
      expect(clone.caveats).toContainEqual(
        expect.objectContaining({ path: 'clone.sizeBytes', reason: expect.stringMatching(/--schema-only/) }),
      );
    });
  });

  test('is without the owners that its role cannot act for, and says so', async () => {
    const database = await temporaryDatabase(15, { sql: SQL });
    await withClient(database.url, async (client) => {
      await client.query(`ALTER TABLE log OWNER TO ${OTHER}; GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${MAKER};
        GRANT SELECT ON ALL SEQUENCES IN SCHEMA public TO ${MAKER}`);
    });
    await withCloning(as(database.url, MAKER), { method: 'dump' }, async (cloning) => {
      const clone = await make(cloning);
      const reasons = clone.caveats.map(({ reason }) => reason).join();
      expect(reasons).toMatch(
        new RegExp(`${OTHER}.* cannot be used there; row security, which an owner bypasses`),
      );
      expect(await ask(clone, 'SELECT count(*)::int AS n FROM public.log')).toEqual([{ n: 100 }]);
    });
    await withClient(database.url, (client) => client.query(`DROP OWNED BY ${OTHER}, ${MAKER}`));
  });

  test('shows no password in the arguments of its programs', async () => {
    const database = await temporaryDatabase(15, { sql: SQL });
    await withClient(serverUrl(15), (client) =>
      client.query(`ALTER DATABASE ${database.name} OWNER TO ${MAKER}`),
    );
    await withClient(database.url, (client) =>
      client.query(`ALTER TABLE t OWNER TO ${MAKER}; ALTER TABLE log OWNER TO ${MAKER};
        ALTER SEQUENCE s OWNER TO ${MAKER}; ALTER VIEW v OWNER TO ${MAKER}`),
    );
    await withCloning(as(database.url, MAKER), { method: 'dump' }, async (cloning) => {
      let seen = '';
      let running = true;
      const look = async () => {
        for (const pid of (await readdir('/proc')).filter((entry) => /^\d+$/.test(entry)))
          seen += await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
        await delay(2);
      };
      // It waits for the lock, so that it is there for long enough to be seen.
      const looking = withClient(database.url, async (client) => {
        await client.query('BEGIN; LOCK TABLE t');
        while (running && !seen.includes('pg_dump')) await look();
        await client.query('COMMIT');
        while (running) await look();
      });
      const clone = await make(cloning).finally(() => {
        running = false;
      });
      await looking;
      expect(clone.notCarried).toEqual([]);
      expect(seen).toContain('pg_dump');
      expect(seen).not.toContain(PASSWORD);
      expect(seen).not.toContain(encodeURIComponent(PASSWORD));
    });
  });

  describe('through a pipe, where there is no room for a dump', () => {
    const pressed = ({ context }: Cloning): Partial<CloneContext> => {
      const { target } = context;
      return { target: { ...target, database: { ...target.database, sizeBytes: 1e15 } } };
    };

    test('holds the same', async () => {
      const database = await temporaryDatabase(15, { sql: SQL });
      await withCloning(database.url, { method: 'dump' }, async (cloning) => {
        const clone = await make(cloning, pressed(cloning));
        expect(clone.reason).toContain('through a pipe');
        expect(await ask(clone, 'SELECT count(*)::int AS n FROM public.t')).toEqual([{ n: 2000 }]);
      });
    });

    test('fails when the first of both programs does', async () => {
      const database = await temporaryDatabase(15, { sql: SQL });
      const attempt = withCloning(as(database.url, MAKER), { method: 'dump' }, (cloning) => {
        const assessment = { strategy: 'same-server', reason: '' } as Possible;
        return dump.create({ ...cloning.context, ...pressed(cloning) }, assessment, cloning.scope);
      });
      await expect(attempt).rejects.toThrow(/permission denied for table/);
    });
  });

  test('that cannot be restored fails with what pg_restore said, and leaves nothing', async () => {
    const database = await temporaryDatabase(15, {
      sql: `CREATE TABLE other (n int); INSERT INTO other VALUES (1);
        CREATE FUNCTION ok(int) RETURNS bool IMMUTABLE LANGUAGE plpgsql AS 'BEGIN RETURN EXISTS (SELECT FROM other); END';
        CREATE TABLE t (n int CHECK (ok(n))); INSERT INTO t VALUES (1)`,
    });
    const before = await databases(database.url);
    const attempt = withCloning(database.url, { method: 'dump' }, (cloning) => make(cloning));
    await expect(attempt).rejects.toThrow(/relation "other" does not exist/);
    expect((await databases(database.url)).filter((name) => name.startsWith(database.name))).toEqual(
      before.filter((name) => name.startsWith(database.name)),
    );
  });

  test('ends with its programs and its folder when the run is ended in the middle', async () => {
    const database = await temporaryDatabase(15, {
      sql: `CREATE TABLE big AS SELECT n, repeat(md5(n::text), 20) AS body FROM generate_series(1, 60000) n;
        CREATE INDEX ON big (body, n)`,
    });
    const parent = mkdtempSync(path.join(tmpdir(), 'dump-'));
    onTestFinished(() => rmSync(parent, { recursive: true }));
    const controller = new AbortController();
    const reason = new SafemigrateError('INTERRUPTED', 'enough');
    const { signal } = controller;
    const options = { method: 'dump' as const, signal, folder: parent };
    const attempt = withCloning(database.url, options, async (cloning) => {
      const emit: CloneContext['emit'] = ({ type }) => {
        if (type === 'progress') controller.abort(reason);
      };
      return make(cloning, { emit });
    });
    await expect(attempt).rejects.toBe(reason);
    expect(readdirSync(parent)).toEqual([]);
    expect((await databases(database.url)).filter((name) => name.startsWith(`${database.name}_`))).toEqual(
      [],
    );
  });
});

describe.skipIf(skip)('a dump into another server', () => {
  test('takes the database there, without the roles that this server does not know', async () => {
    const source = await temporaryDatabase(14, { sql: SQL });
    await withClient(source.url, (client) =>
      client.query(`CREATE ROLE only_here_${suffix}; ALTER TABLE log OWNER TO only_here_${suffix}`),
    );
    await withCloning(source.url, { method: 'dump' }, async (cloning) => {
      const { scope, context } = cloning;
      const { run, signal } = context;
      const target = await inspectTarget(
        parseSettings(serverUrl(15), readEnvironment({}, '/')),
        '--clone-to',
      );
      const claim = await claimRun(target, scope, { run, signal });
      const rehearsal = { target, ...claim };
      // The database that is named there is none to be cloned by itself.
      const { method } = await chooseMethod({ ...context, rehearsal }, 'auto');
      expect(method.id).toBe('dump');
      const clone = await make(cloning, { rehearsal });
      expect(clone).toMatchObject({ strategy: 'rehearsal-server', sharesRoles: false });
      expect(clone.database).toMatch(new RegExp(`^${source.name}_rehearsal_`));
      expect(clone.touched.join()).not.toContain('restored');
      const reasons = clone.caveats.map(({ reason }) => reason).join();
      expect(reasons).toContain(`only_here_${suffix}`);
      expect(reasons).toContain('settings of roles, and row security, may not hold');
      expect(await ask(clone, `SELECT current_setting('server_version_num')::int / 10000 AS major`)).toEqual([
        { major: 15 },
      ]);
      expect(await ask(clone, 'SELECT count(*)::int AS n FROM public.log')).toEqual([{ n: 100 }]);
    });
    expect((await databases(serverUrl(15))).filter((name) => name.startsWith(source.name))).toEqual([]);
    await source.drop();
    await withClient(serverUrl(14), (client) => client.query(`DROP ROLE only_here_${suffix}`));
  });

  test('of its own, where the role may not create databases, knows the roles with what they may', async () => {
    const database = await temporaryDatabase(15, {
      sql: `${SQL}; CREATE SCHEMA app AUTHORIZATION ${READER}; CREATE TABLE app.own (n int);
        ALTER TABLE app.own OWNER TO ${READER}; GRANT SELECT ON ALL TABLES IN SCHEMA public TO ${READER};
        GRANT SELECT ON SEQUENCE s TO ${READER}`,
    });
    let folder = '';
    await withCloning(as(database.url, READER), { method: 'dump' }, async (cloning) => {
      expect(
        await dump.assess({ ...cloning.context, options: { ...cloning.context.options, keep: true } }),
      ).toMatchObject({
        possible: false,
      });
      const clone = await make(cloning);
      folder = clone.connect.hosts[0]?.host ?? '';
      expect(clone).toMatchObject({
        strategy: 'embedded-server',
        isolation: 'own-cluster',
        database: database.name,
        sharesRoles: true,
        notCarried: [],
      });
      // Our own sessions have a path of their own.
      expect(await ask(clone, `SELECT reset_val FROM pg_settings WHERE name = 'search_path'`)).toEqual([
        { reset_val: 'app, public' },
      ]);
      expect(await ask(clone, 'SELECT current_user::text AS me, count(*)::int AS n FROM public.t')).toEqual([
        { me: READER, n: 2000 },
      ]);
      await ask(clone, 'INSERT INTO app.own VALUES (1)');
      await expect(ask(clone, 'INSERT INTO public.log VALUES (1)')).rejects.toMatchObject({ code: '42501' });
      await expect(ask(clone, 'CREATE DATABASE x')).rejects.toMatchObject({ code: '42501' });
    });
    expect(folder).not.toBe('');
    await expect(readdir(folder)).rejects.toMatchObject({ code: 'ENOENT' });
    await withClient(database.url, (client) => client.query(`DROP OWNED BY ${READER}`));
  });
});

describe('a dump', () => {
  const assess = (url: string): Promise<Assessment> =>
    withCloning(url, { method: 'dump' }, ({ context }) => dump.assess(context));

  test.skipIf(skip)('of a table that may not be read is refused, with the grant that helps', async () => {
    const database = await temporaryDatabase(15, { sql: SQL });
    expect(await assess(as(database.url, MAKER))).toMatchObject({
      possible: false,
      reason: expect.stringContaining('public.log and other tables'),
      enable: expect.stringContaining(`GRANT pg_read_all_data TO "${MAKER}"`),
    });
  });

  test('into a folder that is not there is refused, with what to set', async () => {
    const database = await temporaryDatabase(15);
    const folder = '/no/such/folder';
    const assessed = withCloning(database.url, { method: 'dump', folder }, ({ context }) =>
      dump.assess(context),
    );
    expect(await assessed).toMatchObject({
      possible: false,
      reason: expect.stringContaining(folder),
      enable: expect.stringMatching(/TMPDIR.*--clone-dir/),
    });
  });

  test('by programs that are older than the server is refused, and says what to install', async () => {
    const server = majorOf(18);
    const wanted = { programs: ['pg_dump', 'pg_restore'], atLeast: server } as const;
    const old = mkdtempSync(path.join(tmpdir(), 'old-'));
    onTestFinished(() => rmSync(old, { recursive: true }));
    for (const program of wanted.programs)
      writeFileSync(path.join(old, program), `#!/bin/sh\necho '${program} (PostgreSQL) 17.2'\n`, {
        mode: 0o755,
      });
    const found = await findClientPrograms(wanted, { PGBIN: old, PATH: '' });
    if (!('reason' in found)) return expect(found.major).toBeGreaterThanOrEqual(server);
    expect(found.reason).toContain(`17.2 is the newest here, and refuses a server of ${server}`);
    expect(found.enable).toContain(`postgresql-client-${server}`);
    const database = await temporaryDatabase(18);
    expect(await assess(database.url)).toMatchObject({ possible: false, enable: found.enable });
  });
});
