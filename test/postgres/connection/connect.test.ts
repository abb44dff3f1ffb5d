import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { AuditEntry } from '../../../src/postgres/connection/audit.ts';
import {
  applicationName,
  openSession,
  type SessionOptions,
} from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from '../../helpers/database.ts';
import { OLDEST_AND_NEWEST, serverUrl } from '../../helpers/servers.ts';

const open: Session[] = [];

async function connect(url: string, options: Partial<SessionOptions> = {}): Promise<Session> {
  const session = await openSession(parseSettings(url, readEnvironment({}, '.')), {
    purpose: 'test',
    ...options,
  });
  open.push(session);
  return session;
}

afterAll(async () => {
  for (const session of open) await session.close();
});

function changed(url: string, change: (url: URL) => void): string {
  const copy = new URL(url);
  change(copy);
  return copy.href;
}

describe.each(OLDEST_AND_NEWEST)('a session on PostgreSQL %i', (version) => {
  let database: TemporaryDatabase;
  beforeAll(async () => {
    database = await temporaryDatabase(version);
  });
  afterAll(() => database.drop());

  const setting = async (session: Session, name: string) =>
    (await session.query<{ value: string }>('SELECT current_setting($1, true) AS value', [name]))[0]?.value;

  test('has its settings from the start', async () => {
    const session = await connect(database.url, { run: 'run0', lockTimeoutMs: 1234, statementTimeoutMs: 0 });
    const names = ['application_name', 'search_path', 'lock_timeout', 'statement_timeout', 'jit'];
    const values = [];
    for (const name of [...names, 'idle_session_timeout', 'default_transaction_read_only'])
      values.push(await setting(session, name));
    expect(values).toEqual(['safemigrate run0 test', 'pg_catalog', '1234ms', '0', 'off', '0', 'off']);
    expect(await setting(session, 'event_triggers')).toBe(version >= 17 ? 'off' : null);
    expect(session.pid).toBe((await session.query('SELECT pg_backend_pid() AS pid'))[0]?.pid);
  });

  test('cannot write where it is told so', async () => {
    const session = await connect(database.url, { readOnly: true });
    await expect(session.query('CREATE TABLE public.t ()')).rejects.toMatchObject({ code: '25006' });
  });

  test('shows every statement before it is sent, those of libraries too', async () => {
    const entries: AuditEntry[] = [];
    const session = await connect(database.url, { audit: (entry) => entries.push(entry) });
    await session.query('SELECT $1::int', [1]);
    await session.client.query({ text: 'SELECT 2', values: [] });
    await expect(session.query('SELECT wrong')).rejects.toMatchObject({ code: '42703' });
    expect(entries.map(({ sql }) => sql)).toEqual([
      expect.stringContaining('set_config'),
      'SELECT $1::int',
      'SELECT 2',
      'SELECT wrong',
    ]);
    expect(entries[1]).toMatchObject({ database: database.name, purpose: 'test', values: [1] });
  });

  test('goes to another database of the same server', async () => {
    const session = await connect(database.url, { database: 'template1' });
    expect(await session.query('SELECT current_database() AS name')).toEqual([{ name: 'template1' }]);
    expect(session.database).toBe('template1');
  });

  test('runs queries one after the other, however they are started', async () => {
    const session = await connect(database.url);
    const results = await Promise.all([1, 2, 3].map((n) => session.query('SELECT $1::int AS n', [n])));
    expect(results.flat()).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
  });

  test('that is ended by somebody says so, once, and its query fails as LOST', async () => {
    const session = await connect(database.url);
    const reasons: string[] = [];
    session.onLost((reason) => reasons.push(reason));
    const running = session.query('SELECT pg_sleep(60)');
    const assertion = expect(running).rejects.toMatchObject({ code: 'LOST', sqlstate: '57P01' });
    await withClient(database.url, async (client) => {
      await client.query('SELECT pg_terminate_backend($1)', [session.pid]);
    });
    await assertion;
    await expect(session.query('SELECT 1')).rejects.toMatchObject({ code: 'LOST' });
    expect(reasons).toEqual([expect.stringContaining('terminating connection')]);
    await session.close();
  });

  test('that is idle is lost the same way', async () => {
    const session = await connect(database.url);
    const lost = new Promise((resolve) => session.onLost(resolve));
    await withClient(database.url, async (client) => {
      await client.query('SELECT pg_terminate_backend($1)', [session.pid]);
    });
    expect(await lost).toContain('terminating connection');
  });

  test('that is closed by us is not lost', async () => {
    const session = await connect(database.url);
    const listener = vi.fn();
    session.onLost(listener);
    await session.close();
    await session.close();
    expect(listener).not.toHaveBeenCalled();
    await expect(session.query('SELECT 1')).rejects.toMatchObject({ code: 'LOST' });
  });

  test('leaves no query running when it is closed', async () => {
    const session = await connect(database.url, { statementTimeoutMs: 0 });
    const running = session.query('SELECT pg_sleep(60)').catch((error: unknown) => error);
    await withClient(database.url, async (client) => {
      const state = async () =>
        (await client.query('SELECT state FROM pg_stat_activity WHERE pid = $1', [session.pid])).rows[0]
          ?.state;
      await vi.waitFor(async () => expect(await state()).toBe('active'), 60_000);
      await session.close();
      await vi.waitFor(async () => expect(await state()).toBeUndefined(), 60_000);
    });
    expect(await running).toBeInstanceOf(Error);
  });

  test('cancels what runs when it is aborted, and can be used to clean up', async () => {
    const abort = new AbortController();
    const session = await connect(database.url, { signal: abort.signal });
    const running = session.query('SELECT pg_sleep(60)');
    const assertion = expect(running).rejects.toMatchObject({ code: 'INTERRUPTED', sqlstate: '57014' });
    await withClient(database.url, async (client) => {
      await vi.waitFor(async () => {
        const { rows } = await client.query('SELECT state FROM pg_stat_activity WHERE pid = $1', [
          session.pid,
        ]);
        expect(rows).toEqual([{ state: 'active' }]);
      }, 60_000);
    });
    abort.abort();
    await assertion;
    expect(await session.query('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });
});

describe('a login that fails', () => {
  const url = serverUrl(18);

  test.each([
    [
      'a wrong password',
      changed(url, (u) => {
        u.password = 'wrong';
      }),
      '28P01',
      /does not accept the password/,
    ],
    [
      'no password',
      changed(url, (u) => {
        u.password = '';
      }),
      undefined,
      /asks for the password/,
    ],
    [
      'an unknown role',
      changed(url, (u) => {
        u.username = 'nobody_here';
      }),
      '28P01',
      /password/,
    ],
    [
      'an unknown database',
      changed(url, (u) => {
        u.pathname = '/not_there';
      }),
      '3D000',
      /no database "not_there"/,
    ],
    [
      'template0',
      changed(url, (u) => {
        u.pathname = '/template0';
      }),
      '55000',
      /does not accept connections/,
    ],
    [
      'a port where nobody listens',
      changed(url, (u) => {
        u.port = '1';
      }),
      undefined,
      /Nothing accepts connections/,
    ],
    ['a folder without a socket', 'postgresql:///x?host=/no/such/folder', undefined, /no server's socket/],
    ['TLS that the server lacks', `${url}?sslmode=require`, undefined, /does not offer TLS/],
    [
      'a certificate that is missing',
      `${url}?sslmode=verify-full&sslrootcert=/no/such.crt`,
      undefined,
      /sslrootcert cannot be read/,
    ],
    ['channel binding without TLS', `${url}?channel_binding=require`, undefined, /channel binding/],
  ])('because of %s says so', async (_what, broken, sqlstate, message) => {
    const error = await connect(broken).then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toMatchObject({
      name: 'SafemigrateError',
      sqlstate,
      message: expect.stringMatching(message),
    });
    expect(JSON.stringify([error, String(error)])).not.toContain(new URL(url).password);
  });

  test('because the server does not answer stops after connect_timeout', async () => {
    const { createServer } = await import('node:net');
    const silent = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => silent.once('listening', resolve));
    const address = silent.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    const attempt = connect(`postgresql://u@127.0.0.1:${port}/d?connect_timeout=1`);
    await expect(attempt).rejects.toMatchObject({
      code: 'CONNECTION',
      message: expect.stringMatching(/within 1 s/),
    });
    const abort = new AbortController();
    const aborted = connect(`postgresql://u@127.0.0.1:${port}/d`, { signal: abort.signal });
    abort.abort();
    await expect(aborted).rejects.toMatchObject({ code: 'INTERRUPTED' });
    silent.close();
  });
});

describe('several hosts', () => {
  const url = new URL(serverUrl(18));
  const login = `${url.username}:${url.password}`;

  test('are tried in order, and the one that answers is known', async () => {
    const session = await connect(`postgresql://${login}@127.0.0.1:1,${url.host},127.0.0.1:2/postgres`);
    expect(session.address).toEqual({ host: url.hostname, port: Number(url.port) });
  });

  test('are not tried on after a refused login', async () => {
    const attempt = connect(`postgresql://${url.username}:wrong@${url.host},127.0.0.1:1/postgres`);
    await expect(attempt).rejects.toMatchObject({ sqlstate: '28P01' });
  });

  test.each([
    ['read-write', true],
    ['primary', true],
    ['any', true],
    ['prefer-standby', true],
    ['standby', false],
    ['read-only', false],
  ])('target_session_attrs=%s lets a primary pass: %s', async (attributes, passes) => {
    const attempt = connect(`${url.href}?target_session_attrs=${attributes}`);
    if (passes) await expect(attempt).resolves.toBeDefined();
    else await expect(attempt).rejects.toMatchObject({ code: 'CONNECTION' });
  });
});

test('an application name is never longer than PostgreSQL keeps', () => {
  expect(applicationName({ purpose: 'x'.repeat(100), run: 'r' })).toHaveLength(63);
  expect(applicationName({ purpose: 'inspect' })).toBe('safemigrate inspect');
});
