import { randomBytes } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { assessMethods, chooseMethod } from '../../../src/clone/choose.ts';
import type { CloneContext } from '../../../src/clone/method.ts';
import { SafemigrateError } from '../../../src/errors.ts';
import { parseMark, parseOwnedName } from '../../../src/ownership/mark.ts';
import { markerConnectionLimit } from '../../../src/ownership/run-id.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { identifier, literal } from '../../../src/postgres/sql/quote.ts';
import { changedUrl, withCloning } from '../../helpers/cloning.ts';
import { until } from '../../helpers/cutting.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { pending } from '../../helpers/pending.ts';
import { OLDEST_AND_NEWEST, serverUrl } from '../../helpers/servers.ts';

const suffix = randomBytes(4).toString('hex');
const ROLE = `maker_${suffix}`;
const PLAIN = `plain_${suffix}`;
const PASSWORD = 'secret word';
const LAST = OLDEST_AND_NEWEST.at(-1) ?? 18;

beforeAll(async () => {
  for (const version of OLDEST_AND_NEWEST)
    await withClient(serverUrl(version), async (client) => {
      await client.query(`CREATE ROLE ${ROLE} LOGIN CREATEDB PASSWORD ${literal(PASSWORD)}`);
      await client.query(`CREATE ROLE ${PLAIN} LOGIN PASSWORD ${literal(PASSWORD)}`);
    });
});

afterAll(async () => {
  for (const version of OLDEST_AND_NEWEST)
    await withClient(serverUrl(version), async (client) => {
      const { rows } = await client.query<{ datname: string }>(
        'SELECT datname FROM pg_database WHERE datdba IN ($1::regrole, $2::regrole)',
        [ROLE, PLAIN],
      );
      for (const { datname } of rows) await client.query(`DROP DATABASE ${identifier(datname)} WITH (FORCE)`);
      await client.query(`DROP ROLE ${ROLE}, ${PLAIN}`);
    });
});

/** The same, as if the target consisted of so many files. */
function withFiles({ target, ...context }: CloneContext, files: number): CloneContext {
  return { ...context, target: { ...target, database: { ...target.database, files } } };
}

/** A session in the way, closed with the test; what it is told may end it. */
async function session(url: string, application = 'psql'): Promise<Client> {
  const client = new Client({ connectionString: url, application_name: application });
  client.on('error', () => {});
  await client.connect();
  onTestFinished(async () => {
    await client.end().catch(() => {});
  });
  return client;
}

async function isConnected(client: Client): Promise<boolean> {
  return client.query('SELECT 1').then(
    () => true,
    () => false,
  );
}

/** The same session, which waits for what `act` does before each statement that begins so. */
function acting(session: Session, start: string, act: () => Promise<unknown>): Session {
  const query: Session['query'] = async (sql, values) => {
    if (sql.startsWith(start)) await act();
    return session.query(sql, values);
  };
  return new Proxy(session, {
    get(_, name) {
      const value = name === 'query' ? query : Reflect.get(session, name, session);
      return typeof value === 'function' ? value.bind(session) : value;
    },
  });
}

const creating = (sent: readonly { sql: string }[]) =>
  sent.map(({ sql }) => sql).filter((sql) => /^(CREATE DATABASE|SET file_copy_method)/.test(sql));

const admin = (use: (client: Client) => Promise<unknown>, version = LAST) =>
  withClient(serverUrl(version), use);

describe.each(OLDEST_AND_NEWEST)('PostgreSQL %d', (version) => {
  test('clones with the statement that this version knows, marked at birth, open at the end, gone after the run', async () => {
    const database = await temporaryDatabase(version, {
      sql: 'CREATE TABLE t AS SELECT generate_series(1, 1000) AS id',
    });
    const name = await withCloning(database.url, {}, async ({ context, make, sent }) => {
      const clone = await make();
      const statements = creating(sent);
      expect(statements.at(-1)).toContain(
        `TEMPLATE ${identifier(database.name)}${version === 14 ? '' : ` STRATEGY ${clone.strategy === 'wal_log' ? 'wal_log' : 'file_copy'}`}` +
          ` ALLOW_CONNECTIONS false CONNECTION LIMIT ${markerConnectionLimit(context.run)}`,
      );
      if (version < 18) expect(statements).toHaveLength(1);
      expect(clone.strategy).toMatch(version === 14 ? /^copy$/ : /^(copy|wal_log)$/);
      await withClient(changedUrl(database.url, { database: clone.database }), async (client) => {
        expect((await client.query('SELECT count(*)::int AS n FROM t')).rows).toEqual([{ n: 1000 }]);
        const { rows } = await client.query(
          `SELECT oid::int8::text AS oid, datallowconn, datconnlimit, shobj_description(oid, 'pg_database') AS comment
             FROM pg_database WHERE datname = current_database()`,
        );
        expect(rows[0]).toMatchObject({ datallowconn: true, datconnlimit: -1 });
        expect(parseMark(rows[0].comment)).toMatchObject({
          run: context.run,
          role: 'clone',
          targetOid: context.target.database.oid,
          at: { database: clone.database, oid: Number(rows[0].oid) },
        });
      });
      expect(parseOwnedName(clone.database)).toEqual({ role: 'clone', run: context.run });
      return clone.database;
    });
    await admin(async (client) => {
      expect((await client.query('SELECT 1 FROM pg_database WHERE datname = $1', [name])).rows).toEqual([]);
    }, version);
  });

  test.each(version === 14 ? ['copy'] : ['copy', 'wal_log'])(
    'can be told to clone by %s',
    async (strategy) => {
      const database = await temporaryDatabase(version, { sql: 'CREATE TABLE t ()' });
      await withCloning(database.url, {}, async ({ make }) => {
        expect(await make({ strategy })).toMatchObject({ strategy });
      });
    },
  );

  test('an owner with CREATEDB, who is no superuser, makes a clone and drops it', async () => {
    const database = await temporaryDatabase(version);
    await admin(
      (client) => client.query(`ALTER DATABASE ${identifier(database.name)} OWNER TO ${ROLE}`),
      version,
    );
    const url = changedUrl(database.url, { user: ROLE, password: PASSWORD });
    await withCloning(url, {}, async ({ make }) => {
      expect(await make()).toMatchObject({ notCarried: [] });
    });
  });

  test('a prepared transaction on the target is named, with the way to end it', async () => {
    const gid = `it's ${suffix}`;
    const sql = `BEGIN; CREATE TABLE t (); PREPARE TRANSACTION ${literal(gid)}`;
    const database = await temporaryDatabase(version, { sql });
    try {
      await withCloning(database.url, { disconnect: 'all' }, async ({ make }) => {
        await expect(make()).rejects.toMatchObject({
          code: 'SESSIONS',
          message: expect.stringContaining(`prepared transaction ${literal(gid)} of postgres`),
          hint: expect.stringContaining('ROLLBACK PREPARED'),
        });
      });
    } finally {
      await withClient(database.url, (client) => client.query(`ROLLBACK PREPARED ${literal(gid)}`));
    }
  });

  test('what PREPARE TRANSACTION leaves in a clone does not keep the clone alive', async () => {
    const database = await temporaryDatabase(version);
    await withCloning(database.url, {}, async ({ make }) => {
      const clone = await make();
      await withClient(changedUrl(database.url, { database: clone.database }), (client) =>
        client.query(`BEGIN; CREATE TABLE t (); PREPARE TRANSACTION 'left ${suffix}'`),
      );
    });
  });

  test('--disconnect all makes a clone although a client reconnects at once, and for ever', async () => {
    const database = await temporaryDatabase(version);
    const reconnecting = new AbortController();
    const client = (async () => {
      while (!reconnecting.signal.aborted) {
        await withClient(database.url, (each) => each.query('SELECT pg_sleep(60)')).catch(() => {});
      }
    })();
    try {
      const isThere = `SELECT FROM pg_stat_activity WHERE datname = $1 AND state = 'active'`;
      await admin(
        (observer) =>
          until('the client works', async () => {
            const { rowCount } = await observer.query(isThere, [database.name]);
            return rowCount === 1;
          }),
        version,
      );
      const options = { disconnect: 'all', waitMs: 20_000, maxStallMs: 60_000 } as const;
      await withCloning(database.url, options, async ({ context, make, events }) => {
        const clone = await make();
        expect(clone.touched.join()).toMatch(/session/);
        expect(events.filter(({ type }) => type === 'notice')).toEqual([]);
        // The limit is that of the one statement.
        expect(await context.control.query('SHOW statement_timeout')).toEqual([{ statement_timeout: '0' }]);
      });
    } finally {
      reconnecting.abort();
      await database.drop();
      await client;
    }
  });
});

describe('the role', () => {
  test('without CREATEDB is refused, with the statement that helps', async () => {
    const database = await temporaryDatabase(LAST);
    await admin((client) => client.query(`ALTER DATABASE ${identifier(database.name)} OWNER TO ${PLAIN}`));
    const url = changedUrl(database.url, { user: PLAIN, password: PASSWORD });
    await withCloning(url, {}, async ({ make, sent }) => {
      await expect(make()).rejects.toMatchObject({
        code: 'CLONE',
        message: expect.stringContaining(`ALTER ROLE "${PLAIN}" CREATEDB`),
      });
      expect(creating(sent)).toEqual([]);
    });
  });

  test('that owns nothing there is refused, with the statement that helps', async () => {
    const database = await temporaryDatabase(LAST);
    const url = changedUrl(database.url, { user: ROLE, password: PASSWORD });
    await withCloning(url, {}, async ({ make }) => {
      await expect(make()).rejects.toMatchObject({
        code: 'CLONE',
        message: expect.stringContaining(`OWNER TO "${ROLE}"`),
      });
    });
  });

  test('that owns nothing there may clone a template', async () => {
    const database = await temporaryDatabase(LAST);
    const flag = (value: boolean) =>
      admin((client) => client.query(`ALTER DATABASE ${identifier(database.name)} IS_TEMPLATE ${value}`));
    await flag(true);
    try {
      const url = changedUrl(database.url, { user: ROLE, password: PASSWORD });
      await withCloning(url, {}, async ({ make }) => {
        expect((await make()).notCarried.map(({ property }) => property)).toEqual(['owner postgres']);
      });
    } finally {
      await flag(false);
    }
  });
});

describe('sessions on the target', () => {
  test('are waited for, and the clone is made when they have gone', async () => {
    const database = await temporaryDatabase(LAST);
    const other = await session(database.url);
    await withCloning(database.url, { waitMs: 20_000 }, async ({ make, events }) => {
      const clone = pending(make());
      while (!events.some((event) => event.type === 'phase' && event.phase === 'wait')) await delay(5);
      expect(await isConnected(other)).toBe(true);
      await other.end();
      await clone;
    });
  });

  test('are named when the time is up, and not disconnected', async () => {
    const database = await temporaryDatabase(LAST);
    const other = await session(database.url, 'the shop');
    await other.query('BEGIN');
    const { rows } = await other.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    await withCloning(database.url, { waitMs: 50 }, async ({ make, sent }) => {
      await expect(make()).rejects.toMatchObject({
        code: 'SESSIONS',
        message: expect.stringMatching(
          new RegExp(
            `pid ${rows[0]?.pid}: postgres, the shop from 127\\.0\\.0\\.1, idle in transaction since`,
          ),
        ),
        hint: expect.stringMatching(/no session was terminated.*SAFEMIGRATE_WAIT.*--disconnect/s),
      });
      expect(creating(sent)).toEqual([]);
    });
    expect(await isConnected(other)).toBe(true);
  });

  test('that are idle are ended by --disconnect idle, and those at work are not', async () => {
    const database = await temporaryDatabase(LAST);
    const [idle, busy] = [await session(database.url), await session(database.url)];
    await busy.query('BEGIN');
    await withCloning(database.url, { disconnect: 'idle' }, async ({ make }) => {
      await expect(make()).rejects.toMatchObject({
        code: 'SESSIONS',
        message: expect.stringMatching(/^1 other/),
      });
      expect(await isConnected(idle)).toBe(true);
      await busy.query('COMMIT');
      const clone = await make();
      expect(clone.touched.join()).toContain('2 sessions on the target ended');
    });
    expect(await isConnected(idle)).toBe(false);
    expect(await isConnected(busy)).toBe(false);
  });

  test('of superusers are not ended by others, and then nobody is', async () => {
    const database = await temporaryDatabase(LAST);
    await admin(async (client) => {
      await client.query(`ALTER DATABASE ${identifier(database.name)} OWNER TO ${ROLE}`);
      await client.query(`GRANT pg_signal_backend TO ${ROLE}`);
    });
    const url = changedUrl(database.url, { user: ROLE, password: PASSWORD });
    const [theirs, own] = [await session(database.url, 'the boss'), await session(url)];
    await withCloning(url, { disconnect: 'all' }, async ({ make }) => {
      await expect(make()).rejects.toMatchObject({
        code: 'SESSIONS',
        message: expect.stringMatching(/^1 other session is.*\n.*postgres, the boss/),
        hint: expect.stringContaining('superusers'),
      });
    });
    expect(await isConnected(theirs)).toBe(true);
    expect(await isConnected(own)).toBe(true);
  });

  test('of other ordinary roles are ended with pg_signal_backend, though their state cannot be seen', async () => {
    const database = await temporaryDatabase(LAST);
    await admin(async (client) => {
      await client.query(`ALTER DATABASE ${identifier(database.name)} OWNER TO ${ROLE}`);
      await client.query(`REVOKE pg_signal_backend FROM ${ROLE}`);
    });
    const url = changedUrl(database.url, { user: ROLE, password: PASSWORD });
    const other = await session(changedUrl(database.url, { user: PLAIN, password: PASSWORD }));
    await withCloning(url, { disconnect: 'all' }, async ({ make }) => {
      await expect(make()).rejects.toMatchObject({
        code: 'SESSIONS',
        hint: expect.stringContaining('GRANT pg_signal_backend'),
      });
    });
    expect(await isConnected(other)).toBe(true);
    await admin((client) => client.query(`GRANT pg_signal_backend TO ${ROLE}`));
    await withCloning(url, { disconnect: 'idle' }, async ({ make }) => {
      await expect(make()).rejects.toMatchObject({
        hint: expect.stringContaining('GRANT pg_read_all_stats'),
      });
    });
    await withCloning(url, { disconnect: 'all' }, ({ make }) => make());
    expect(await isConnected(other)).toBe(false);
  });
});

describe('the stall', () => {
  test('is refused beforehand where the target is in use and the estimate is above the limit', async () => {
    const database = await temporaryDatabase(LAST);
    const other = await session(database.url);
    await withCloning(database.url, { disconnect: 'all', maxStallMs: 1 }, async ({ make, sent }) => {
      await expect(make()).rejects.toMatchObject({
        code: 'STALL',
        hint: expect.stringContaining('--limit stall'),
      });
      expect(creating(sent)).toEqual([]);
    });
    expect(await isConnected(other)).toBe(true);
  });

  test('is not blamed where a session stayed that began to work in the last moment: that one is named', async () => {
    const database = await temporaryDatabase(LAST);
    const other = await session(database.url, 'late');
    const limits = { disconnect: 'idle', waitMs: 100, maxStallMs: 1500 } as const;
    await withCloning(database.url, limits, async ({ context, scope }) => {
      const { method, assessment } = await chooseMethod(context, 'template');
      const control = acting(context.control, 'SET statement_timeout', () => other.query('BEGIN'));
      await expect(method.create({ ...context, control }, assessment, scope)).rejects.toMatchObject({
        code: 'SESSIONS',
        message: expect.stringContaining('late'),
      });
    });
    expect(await isConnected(other)).toBe(true);
  });

  test('is refused where nobody stays, but somebody comes now and then', async () => {
    const database = await temporaryDatabase(LAST);
    await withCloning(database.url, { waitMs: 10_000 }, async ({ context, scope, sent }) => {
      const many = withFiles(context, 200_000);
      let over = false;
      const coming = (async () => {
        while (!over) {
          await withClient(database.url, (client) => client.query('SELECT pg_sleep(0.02)'));
          await delay(20);
        }
      })();
      try {
        const { method, assessment } = await chooseMethod(many, 'template');
        await expect(method.create(many, assessment, scope)).rejects.toMatchObject({ code: 'STALL' });
        expect(creating(sent)).toEqual([]);
      } finally {
        over = true;
        await coming;
      }
    });
  });

  test.each([14, LAST] as const)(
    'on PostgreSQL %d is nobody’s where nobody comes but ourselves',
    async (version) => {
      const database = await temporaryDatabase(version);
      await withCloning(database.url, {}, async ({ context, scope }) => {
        const many = withFiles(context, 200_000);
        await assessMethods(many, 'auto');
        const { method, assessment } = await chooseMethod(many, 'template');
        expect(assessment.stallMs).toBeGreaterThan(context.options.maxStallMs);
        await method.create(many, assessment, scope);
      });
    },
  );

  test('is nobody’s where nobody is connected', async () => {
    const database = await temporaryDatabase(LAST);
    await withCloning(database.url, { maxStallMs: 1 }, ({ make }) => make());
  });
});

describe('an abort', () => {
  test('while CREATE DATABASE runs leaves nothing', async () => {
    const database = await temporaryDatabase(LAST, {
      sql: 'CREATE TABLE t AS SELECT generate_series(1, 200000)',
    });
    const stop = new AbortController();
    const onSent = ({ sql }: { sql: string }) => {
      if (sql.startsWith('CREATE DATABASE'))
        setTimeout(() => stop.abort(new SafemigrateError('INTERRUPTED', 'enough')), 5);
    };
    await withCloning(database.url, { signal: stop.signal, onSent }, async ({ make }) => {
      await expect(make()).rejects.toMatchObject({ code: 'INTERRUPTED' });
    });
  });

  test.each(['WITH ORDINALITY c(setting', 'COMMENT ON DATABASE', 'SAVEPOINT', 'ALTER DATABASE', 'COMMIT'])(
    'at the moment of %s leaves nothing',
    async (statement) => {
      const database = await temporaryDatabase(LAST);
      const stop = new AbortController();
      const onSent = ({ sql }: { sql: string }) => {
        if (sql.includes(statement)) stop.abort(new SafemigrateError('INTERRUPTED', 'enough'));
      };
      await withCloning(database.url, { signal: stop.signal, onSent }, async ({ make }) => {
        await make().catch((error: { code: string }) => expect(error.code).toBe('INTERRUPTED'));
        expect(stop.signal.aborted).toBe(true);
      });
    },
  );
});

test.each([
  `it's "quoted" ${suffix}`,
  `with $1 $$ dollars ${suffix}`,
  `🚀 rocket ${suffix}`,
  `back\\slash ${suffix}`,
  `x${suffix}${'x'.repeat(54)}`,
  `${suffix}${'🚀'.repeat(13)}`,
  `100%_like ${suffix}`,
])('a target named %s is cloned', async (name) => {
  const database = await temporaryDatabase(LAST, { name });
  await withCloning(database.url, {}, async ({ make }) => {
    const clone = await make();
    expect(Buffer.byteLength(clone.database)).toBeLessThanOrEqual(63);
    await withClient(changedUrl(database.url, { database: clone.database }), (client) =>
      client.query('SELECT 1'),
    );
  });
});

test('a target whose collation changed with the operating system is cloned as it is', async () => {
  const database = await temporaryDatabase(LAST);
  await admin((client) =>
    client.query(`UPDATE pg_database SET datcollversion = '1.old' WHERE datname = $1`, [database.name]),
  );
  await withCloning(database.url, {}, async ({ make }) => {
    const clone = await make();
    await admin(async (client) => {
      const { rows } = await client.query('SELECT datcollversion FROM pg_database WHERE datname = $1', [
        clone.database,
      ]);
      expect(rows).toEqual([{ datcollversion: '1.old' }]);
    });
  });
});
