import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { ProcessFamily } from '../../src/command/process-tree.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../helpers/database.ts';
import { rehearse, scriptCommand } from '../helpers/rehearse.ts';
import { majorOf, serverUrl, useOwnServers } from '../helpers/servers.ts';
import { clonesOf, digestOf } from '../helpers/target-state.ts';

let target: TemporaryDatabase;

beforeAll(() => useOwnServers(18));
beforeAll(() => onServer('CREATE ROLE clerk; CREATE ROLE boss; CREATE ROLE helper'));

beforeEach(async () => {
  target = await temporaryDatabase(18, {
    sql: 'CREATE TABLE jobs (id int); ALTER TABLE jobs OWNER TO clerk',
  });
});

afterEach(async () => {
  expect(await clonesOf(18, target.name)).toEqual([]);
  await target.drop();
});

async function onServer<T extends object>(sql: string): Promise<T[]> {
  return withClient(serverUrl(18), async (client) => (await client.query<T>(sql)).rows);
}

const role = async (name: string) =>
  (await onServer(`SELECT rolcreatedb, rolcreaterole, rolconfig FROM pg_roles WHERE rolname = '${name}'`))[0];

/** Owner, connection limit, privileges, settings and comment of the target itself. */
const targetRow = () =>
  onServer(`SELECT datdba::regrole::text AS owner, datconnlimit, datacl::text, shobj_description(oid, 'pg_database') AS comment,
      (SELECT array_agg(s.setconfig::text) FROM pg_db_role_setting s WHERE s.setdatabase = d.oid) AS settings
    FROM pg_database d WHERE datname = '${target.name}'`);

const databases = async () =>
  (await onServer<{ datname: string }>('SELECT datname FROM pg_database ORDER BY 1')).map(
    (row) => row.datname,
  );

describe('what would take effect beyond the clone', () => {
  const REFUSED = [
    ['ALTER ROLE', 'ALTER ROLE clerk CREATEDB'],
    ['CREATE ROLE', 'CREATE TABLE notes (id int); CREATE ROLE sneaky'],
    ['REASSIGN OWNED', 'REASSIGN OWNED BY clerk TO boss'],
    ['DO with ALTER ROLE', 'DO $$ BEGIN ALTER ROLE clerk CREATEDB; END $$'],
    [
      'f(), which runs ALTER ROLE',
      `CREATE FUNCTION f() RETURNS void LANGUAGE sql AS 'ALTER ROLE clerk CREATEDB'; SELECT f()`,
    ],
  ] as const;

  test('is refused, each with its reason', async () => {
    const before = await role('clerk');
    const { report, exitCode, stderr } = await rehearse(
      target.url,
      scriptCommand(
        `let failed;
         for (const sql of args) {
           const client = await connect();
           await client.query(sql).catch((error) => { console.error(error.message); failed = error; });
           await client.end();
         }
         if (failed) throw failed;`,
        ...REFUSED.map(([, sql]) => sql),
      ),
    );
    expect(exitCode).toBe(1);
    expect(report.command.refused).toMatchObject(
      REFUSED.map(([what]) => ({ what, why: expect.any(String) })),
    );
    for (const [what] of REFUSED) {
      expect(report.verdict.reasons.some((reason) => reason.includes(what))).toBe(true);
      expect(stderr).toContain(`safemigrate does not run ${what}`);
    }
    expect(report.target.changes).toEqual([]);
    expect(report.schema?.changes).toEqual([]);
    expect(await role('clerk')).toEqual(before);
    expect(await role('sneaky')).toBeUndefined();
  });

  test('runs with --permit cluster, and the report says so', async () => {
    const { report, exitCode } = await rehearse(target.url, sqlCommand('ALTER ROLE helper CREATEDB'), {
      args: ['--permit', 'cluster'],
    });
    expect(report.command).toMatchObject({ allowed: ['ALTER ROLE'], refused: [] });
    expect(report.target.changes).toMatchObject([
      { what: 'role helper: rolcreatedb false → true', madeBy: 'command' },
    ]);
    expect(exitCode).toBe(5);
    expect(await role('helper')).toMatchObject({ rolcreatedb: true });
  });

  test.each([
    [
      'DO',
      `DO $$ BEGIN EXECUTE 'ALTER' || ' ROLE boss CREATEDB'; END $$`,
      'role boss: rolcreatedb false → true',
    ],
    [
      'a function',
      `CREATE FUNCTION f() RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE 'ALTER' || ' ROLE boss CREATEROLE'; END $$; SELECT f()`,
      'role boss: rolcreaterole false → true',
    ],
    [
      'REASSIGN OWNED in DO',
      // Ownership of databases is shared, and so is reached from the clone.
      `DO $$ BEGIN EXECUTE 'REASSIGN' || ' OWNED BY clerk TO boss'; END $$`,
      /: owner clerk → boss/,
    ],
  ])('is found where it hides in %s: exit code 5, with the exact change', async (_where, sql, what) => {
    await onServer(`ALTER DATABASE ${target.name} OWNER TO clerk`);
    const { report, exitCode } = await rehearse(target.url, sqlCommand(sql));
    expect(exitCode).toBe(5);
    expect(report.target.changes).toMatchObject([{ what: expect.stringMatching(what), madeBy: 'command' }]);
  });

  test('goes for DROP DATABASE of the target', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      scriptCommand(`
        const client = await connect('postgres');
        try { await client.query('DROP DATABASE ${target.name} WITH (FORCE)') } finally { await client.end() }`),
    );
    expect(exitCode).toBe(1);
    expect(report.command.refused).toMatchObject([{ what: `DROP DATABASE ${target.name}` }]);
    expect(await databases()).toContain(target.name);
  });

  test('and for a copy of the target, which would hold up newcomers to it', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      sqlCommand(`CREATE DATABASE ${target.name}_copy TEMPLATE ${target.name}`),
    );
    expect(exitCode).toBe(1);
    expect(report.command.refused).toHaveLength(1);
    expect(await databases()).not.toContain(`${target.name}_copy`);
  });

  // From 19 on no server can be told to read strings otherwise.
  test.runIf(majorOf(18) < 19)(
    'goes for what the server reads otherwise than the parser: exit code 5, by the server’s own word',
    async () => {
      const { report, exitCode } = await rehearse(
        target.url,
        scriptCommand(`
        const client = await connect();
        await client.query('SET standard_conforming_strings = off');
        await client.query("SELECT 'a\\\\''; CREATE ROLE misread; --'");
        await client.end();`),
      );
      expect(exitCode).toBe(5);
      expect(report.target.unchanged).toBe(false);
      expect(report.target.changes).toContainEqual({
        what: 'the server ran CREATE ROLE',
        madeBy: 'command',
        evidence: 'a session of the command got this answer',
      });
      await onServer('DROP ROLE misread');
    },
  );

  test('a function, a view and an operator of the database postgres cannot write there', async () => {
    await onServer(`
        CREATE TABLE notes (id int);
        CREATE FUNCTION note(int, int) RETURNS int LANGUAGE sql AS 'INSERT INTO notes VALUES ($1) RETURNING id';
        CREATE VIEW noting AS SELECT note(1, 1);
        CREATE OPERATOR public.@@@@ (FUNCTION = note, LEFTARG = int, RIGHTARG = int)`);
    const { stderr } = await rehearse(
      target.url,
      scriptCommand(`
        for (const sql of ${JSON.stringify([
          'SELECT note(1, 1)',
          'TABLE noting',
          'SELECT 1 @@@@ 2',
          'RESET ALL; TABLE noting',
          'BEGIN READ WRITE',
          'SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE',
          'SELECT 1',
        ])})
          for (const queryMode of [undefined, 'extended']) {
            const client = await connect('postgres');
            const done = await client.query({ text: sql, queryMode }).then(() => 'ran', ({ code }) => code);
            console.error(done + ' ' + sql);
            await client.end();
          }`),
    );
    const outcomes = stderr.match(/^\S+ (?:SELECT|TABLE|RESET|BEGIN|SET) .*$/gm)?.sort();
    expect(outcomes).toEqual(
      [
        ...['42501 SELECT note(1, 1)', '25006 TABLE noting', '25006 SELECT 1 @@@@ 2'],
        ...['42501 BEGIN READ WRITE', 'ran SELECT 1'],
        '42501 SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE',
      ]
        .flatMap((each) => [each, each])
        .concat(['25006 RESET ALL; TABLE noting', '42501 RESET ALL; TABLE noting'])
        .sort(),
    );
    await onServer('DROP VIEW noting; DROP OPERATOR @@@@ (int, int); DROP FUNCTION note; DROP TABLE notes');
  });

  test('within a transaction block there, a database of the command’s is not changed, and the error says why', async () => {
    const own = `own_${target.name}`;
    const { stderr } = await rehearse(
      target.url,
      scriptCommand(`
        const client = await connect('postgres');
        await client.query('CREATE DATABASE ${own}');
        await client.query('ALTER DATABASE ${own} SET work_mem = 100');
        await client.query('BEGIN');
        const error = await client.query('ALTER DATABASE ${own} RESET work_mem').catch((error) => error);
        console.error(error.code, error.hint);
        await client.query('ROLLBACK');
        await client.query('DROP DATABASE ${own}');
        await client.end();`),
    );
    expect(stderr).toMatch(
      /25006 In a rehearsal safemigrate makes sessions .* outside of a transaction block/,
    );
  });

  test('the database postgres may be looked into, and not changed', async () => {
    const { report, exitCode, stderr } = await rehearse(
      target.url,
      scriptCommand(`
        const client = await connect('postgres');
        const { rows } = await client.query('SELECT count(*) > 0 AS there FROM pg_database');
        console.error('looked:', rows[0].there);
        try { await client.query('CREATE TABLE stray (id int)') } finally { await client.end() }`),
    );
    expect(stderr).toContain('looked: true');
    expect(exitCode).toBe(1);
    expect(report.command.refused).toMatchObject([{ what: expect.stringContaining('postgres') }]);
    expect(await onServer("SELECT FROM pg_class WHERE relname = 'stray'")).toEqual([]);
  });
});

describe('what names the target by its own name', () => {
  test('lands on the clone', async () => {
    const before = await targetRow();
    const statements = [
      `ALTER DATABASE ${target.name} SET work_mem = '7MB'`,
      `GRANT TEMPORARY ON DATABASE ${target.name} TO boss`,
      `COMMENT ON DATABASE ${target.name} IS 'the shop'`,
      `ALTER DATABASE ${target.name} OWNER TO boss`,
    ];
    const { report, exitCode, stderr } = await rehearse(
      target.url,
      scriptCommand(
        `for (const sql of args) {
           const client = await connect();
           await client.query(sql);
           await client.end();
         }`,
        ...statements,
      ),
    );
    expect(exitCode, stderr).toBe(0);
    expect(report.command.redirected).toEqual(statements.map(() => expect.stringContaining(target.name)));
    expect(report.target.changes).toEqual([]);
    expect(report.cleanup.failed).toEqual([]);
    expect(await targetRow()).toEqual(before);
  });

  test('a comment in dynamic SQL replaces the clone’s mark, and the clone is dropped all the same', async () => {
    const { report, exitCode } = await rehearse(
      target.url,
      sqlCommand(
        `DO $$ BEGIN EXECUTE format('COMMENT ON DATABASE %I IS ''gone''', current_database()); END $$`,
      ),
    );
    expect(exitCode).toBe(0);
    expect(report.cleanup.failed).toEqual([]);
  });
});

function killIfAlive(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

describe('databases that the command makes for itself', () => {
  const shadowing = (rest: string) =>
    scriptCommand(`
      const maker = await connect('postgres');
      await maker.query('DROP DATABASE IF EXISTS shadow');
      await maker.query('CREATE DATABASE shadow');
      const shadow = await connect('shadow');
      await shadow.query('CREATE TABLE inside (id int)');
      await shadow.query('INSERT INTO inside VALUES (1)');
      ${rest}
      await shadow.end();
      await maker.end();`);

  test('are there while it runs, and gone afterwards', async () => {
    const before = await databases();
    const changes = [
      `ALTER DATABASE shadow SET work_mem = '7MB'`,
      'ALTER DATABASE shadow CONNECTION LIMIT 3',
      'GRANT CONNECT ON DATABASE shadow TO clerk',
      `ALTER ROLE clerk IN DATABASE shadow SET work_mem = '8MB'`,
    ];
    const more = changes.map((sql) => `await maker.query(${JSON.stringify(sql)});`).join('\n');
    const { report, exitCode, stderr } = await rehearse(target.url, shadowing(more));
    expect(exitCode, stderr).toBe(0);
    expect(report.target.changes).toEqual([]);
    expect(report.command.refused).toEqual([]);
    expect(await databases()).toEqual(before);
  });

  test('also where it drops them itself, and makes them again', async () => {
    const before = await databases();
    const { exitCode, stderr } = await rehearse(
      target.url,
      shadowing(`
        await shadow.end();
        await maker.query('DROP DATABASE shadow');
        await maker.query('CREATE DATABASE shadow');
        await maker.query('DROP DATABASE shadow');
        return maker.end();`),
    );
    expect(exitCode, stderr).toBe(0);
    expect(await databases()).toEqual(before);
  });

  test('also by prepared statements, and several at a time', async () => {
    const before = await databases();
    const { report, exitCode, stderr } = await rehearse(
      target.url,
      scriptCommand(`
        const maker = await connect('postgres');
        await maker.query({ name: 'make', text: 'CREATE DATABASE prepared' });
        await maker.query({ text: 'CREATE DATABASE unnamed', queryMode: 'extended' });
        await maker.query("ALTER DATABASE prepared SET work_mem = '7MB'; ALTER DATABASE unnamed SET work_mem = '7MB'");
        await maker.query({ name: 'drop', text: 'DROP DATABASE prepared' });
        await maker.query({ text: 'COMMENT ON DATABASE unnamed IS $$made$$', queryMode: 'extended' });
        const { rows } = await maker.query('SHOW default_transaction_read_only');
        console.error('read-only:', rows[0].default_transaction_read_only);
        await maker.end();`),
    );
    expect(exitCode, stderr).toBe(0);
    expect(stderr).toContain('read-only: on');
    expect(report.command.refused).toEqual([]);
    expect(await databases()).toEqual(before);
  });

  test('and where it gives them a connection limit of its own', async () => {
    const before = await databases();
    const { exitCode, stderr } = await rehearse(
      target.url,
      scriptCommand(`
        const maker = await connect('postgres');
        await maker.query('CREATE DATABASE limited CONNECTION LIMIT = 5 ENCODING utf8');
        await maker.query('CREATE DATABASE unlimited WITH CONNECTION LIMIT -1');
        await maker.end();`),
    );
    expect(exitCode, stderr).toBe(0);
    expect(await databases()).toEqual(before);
  });

  test('but one of that name that was there before is neither made nor dropped', async () => {
    await onServer('CREATE DATABASE shadow');
    try {
      const { report, exitCode } = await rehearse(target.url, shadowing(''));
      expect(exitCode).toBe(1);
      expect(report.command.refused).toMatchObject([{ what: 'DROP DATABASE shadow' }]);
      expect(await databases()).toContain('shadow');
    } finally {
      await onServer('DROP DATABASE shadow');
    }
  });

  test('after kill -9 they are listed and cleaned, and one of the same name by somebody else is not', async () => {
    const before = await databases();
    let pid = 0;
    const killed = await safemigrate(
      ['--', ...shadowing("console.error('ready'); await new Promise(() => setInterval(() => {}, 1000));")],
      {
        env: { DATABASE_URL: target.url },
        started: (child) => {
          pid = child;
        },
        typed: [
          [
            /ready/,
            async () => {
              // The command is an orphan then, which waits for nothing that ends; in a sandbox it has ended with its parents.
              for (const each of await new ProcessFamily(pid).pids()) killIfAlive(each);
              return '';
            },
          ],
        ],
      },
    );
    expect(killed.signal).toBe('SIGKILL');
    await expect
      .poll(() => onServer("SELECT FROM pg_stat_activity WHERE application_name LIKE 'safemigrate%'"), {
        timeout: 60_000,
      })
      .toEqual([]);

    const env = { DATABASE_URL: target.url };
    const list = JSON.parse((await safemigrate(['list', '--format', 'json'], { env })).stdout);
    expect(list).toMatchObject([
      { name: 'shadow', role: 'made', owning: 'dead' },
      { role: 'clone', owning: 'dead' },
      { role: 'sockets', owning: 'dead' },
    ]);
    // Somebody else takes the name meanwhile.
    await onServer('DROP DATABASE shadow WITH (FORCE)');
    await onServer('CREATE DATABASE shadow');
    const theirs = await safemigrate(['clean'], { env });
    expect(theirs).toMatchObject({ exitCode: 0, stderr: '' });
    expect(await databases()).toEqual([...before, 'shadow'].sort());
    await onServer('DROP DATABASE shadow');
  });

  test('the target is as it was after all of that', async () => {
    const before = await digestOf(target.url);
    await rehearse(target.url, shadowing(''));
    expect(await digestOf(target.url)).toEqual(before);
  });
});
