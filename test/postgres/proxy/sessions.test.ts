import { execFile } from 'node:child_process';
import { createConnection, type Socket } from 'node:net';
import { promisify } from 'node:util';
import { Client } from 'pg';
import { describe, expect, test } from 'vitest';
import {
  encodeMessage,
  errorFields,
  int32,
  query,
  STARTUP,
} from '../../../src/postgres/protocol/messages.ts';
import type { Intent } from '../../../src/proxy/observed.ts';
import type { ProxyOptions } from '../../../src/proxy/proxy.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { bindFrames, executeFrame, parseFrame, syncFrame } from '../../helpers/frames.ts';
import { withProxy } from '../../helpers/proxy.ts';
import { RawClient } from '../../helpers/raw-client.ts';
import { startRelay } from '../../helpers/relay.ts';

const run = promisify(execFile);
const T = 'create table t (id int primary key, v text)';

describe('a client is let in', () => {
  test('by the secret of the run, under the name that the database is known by', async () => {
    const database = await temporaryDatabase(18);
    await withProxy(database.url, {}, async ({ url }) => {
      const { stdout } = await run('psql', [url, '-Atc', 'select 1']);
      expect(stdout).toBe('1\n');
    });
  });

  test.each([
    ['a wrong secret', (url: URL) => (url.password = 'no'), '28P01'],
    ['a role that no route is for', (url: URL) => (url.username = 'somebody'), '28000'],
    ['a database that is not offered', (url: URL) => (url.pathname = '/elsewhere'), '3D000'],
  ])('but not with %s', async (_name, change, sqlstate) => {
    const database = await temporaryDatabase(18);
    await withProxy(database.url, {}, async ({ url }) => {
      const other = new URL(url);
      change(other);
      await expect(withClient(other.href, async () => {})).rejects.toMatchObject({ code: sqlstate });
    });
  });

  test('into another database that the run allows', async () => {
    const database = await temporaryDatabase(18);
    const other = await temporaryDatabase(18);
    const otherDatabase: ProxyOptions['otherDatabase'] = (name, upstream) =>
      name === 'shadow' ? { ...upstream, database: other.name } : undefined;
    await withProxy(database.url, { otherDatabase }, async ({ url }) => {
      const shadow = new URL(url);
      shadow.pathname = '/shadow';
      await withClient(shadow.href, async (client) => {
        const { rows } = await client.query('select current_database() as name');
        expect(rows).toEqual([{ name: other.name }]);
      });
    });
  });

  test('where the same words are observed, and asked about, anew', async () => {
    const database = await temporaryDatabase(18, { sql: 'create table t (id int)' });
    const other = await temporaryDatabase(18, { sql: 'create table t (id int)' });
    const otherDatabase: ProxyOptions['otherDatabase'] = (name, upstream) =>
      name === 'shadow' ? { ...upstream, database: other.name } : undefined;
    const asked: string[] = [];
    const before = ({ database: of }: Intent) => {
      asked.push(of);
      return 'run' as const;
    };
    await withProxy(database.url, { otherDatabase, gate: { before } }, async ({ url, statements }) => {
      const shadow = new URL(url);
      shadow.pathname = '/shadow';
      for (const href of [url, shadow.href])
        await withClient(href, async (client) => {
          for (const id of [1, 2]) await client.query(`insert into t values (${id})`);
        });
      expect(asked).toEqual([database.name, 'shadow']);
      const locked = statements().map(({ locks }) => [locks?.exactness, locks?.locks?.[0]?.database]);
      const [first, , second] = locked.map(([, oid]) => oid);
      expect(locked.map(([exactness]) => exactness)).toEqual(['exact', 'group', 'exact', 'group']);
      expect(second).not.toBe(first);
    });
  });

  test('but not for replication', async () => {
    const database = await temporaryDatabase(18);
    await withProxy(database.url, {}, async ({ url }) => {
      await expect(
        run('psql', [`${url}?replication=database`, '-c', 'IDENTIFY_SYSTEM']),
      ).rejects.toMatchObject({
        stderr: expect.stringContaining('replication'),
      });
    });
  });

  test('where the server says no, it hears the words of the server', async () => {
    const database = await temporaryDatabase(18);
    await withClient(database.url, (client) =>
      client.query(`alter database ${database.name} connection limit 0`),
    );
    const role = `limited_${database.name}`;
    await withClient(database.url, (client) => client.query(`create role ${role} login password 'p'`));
    try {
      const direct = new URL(database.url);
      direct.username = role;
      direct.password = 'p';
      await withProxy(direct.href, {}, async ({ url }) => {
        await expect(withClient(url, async () => {})).rejects.toMatchObject({ code: '53300' });
      });
    } finally {
      await withClient(database.url, (client) => client.query(`drop role ${role}`));
    }
  });

  test.each([18, 17] as const)(
    'and protocol 3.2 has the keys of the server, as of PostgreSQL %d',
    async (version) => {
      const database = await temporaryDatabase(version);
      await withProxy(database.url, {}, async ({ url }) => {
        const keyBytes = async (from: string) => {
          const client = await RawClient.connect(from, { application_name: 'of 3.2' }, STARTUP.version32);
          client.send(query('select pg_sleep(600)'));
          await running(database.url, 'of 3.2', 1);
          await client.upstream.cancel();
          expect((await client.until('Z')).join()).toContain('C=57014');
          await client.close();
          return client.upstream.key.length - 4;
        };
        const direct = await keyBytes(database.url);
        expect(direct).toBe(version === 18 ? 32 : 4);
        expect(await keyBytes(url)).toBe(direct);
      });
    },
  );

  test('and protocol 3.2 is not spoken where the server does not', async () => {
    const database = await temporaryDatabase(17);
    await withProxy(database.url, { serverVersionNum: 170000 }, async ({ proxy, url }) => {
      const socket = createConnection(proxy.port, proxy.host);
      socket.write(startup(STARTUP.version32, 'user\0postgres\0\0'));
      const answer = await firstBytes(socket);
      expect(String.fromCharCode(answer[0] ?? 0)).toBe('v');
      expect(answer.readUInt32BE(5)).toBe(STARTUP.version3);
      socket.destroy();
      const client = await RawClient.connect(url, {}, STARTUP.version32);
      expect((await client.query('select 1')).at(-1)).toContain('Z');
      await client.close();
    });
  });

  test('and options of protocol 3.2 are answered with what is spoken here', async () => {
    const database = await temporaryDatabase(18);
    await withProxy(database.url, {}, async ({ proxy }) => {
      const socket = createConnection(proxy.port, proxy.host);
      socket.write(startup(0x0003_0002, 'user\0postgres\0_pq_.wish\0on\0\0'));
      const answer = await firstBytes(socket);
      expect(String.fromCharCode(answer[0] ?? 0)).toBe('v');
      expect(answer.readUInt32BE(5)).toBe(0x0003_0002);
      expect(answer.toString('latin1', 13, 22)).toBe('_pq_.wish');
      socket.destroy();
    });
  });

  test.each([
    ['a version that nobody speaks', 0x0003_270f, [], 0x0003_0002],
    ['3.0 with options', 0x0003_0000, ['_pq_.one', '_pq_.two'], 0x0003_0000],
  ])('and %s is negotiated before anything else', async (_, version, options, answered) => {
    const database = await temporaryDatabase(18);
    await withProxy(database.url, {}, async ({ proxy }) => {
      const socket = createConnection(proxy.port, proxy.host);
      const pairs = options.map((name) => `${name}\0on\0`).join('');
      socket.write(startup(version, `user\0postgres\0${pairs}\0`));
      const answer = await firstBytes(socket);
      const length = 12 + options.join('').length + options.length;
      expect(answer.readUInt32BE(1)).toBe(length);
      expect(answer.readUInt32BE(5)).toBe(answered);
      expect(answer.readUInt32BE(9)).toBe(options.length);
      expect(answer.toString('latin1', 13, 1 + length)).toBe(options.map((name) => `${name}\0`).join(''));
      socket.destroy();
    });
  });

  test('and a direct TLS handshake is refused in words', async () => {
    const database = await temporaryDatabase(18);
    await withProxy(database.url, {}, async ({ proxy }) => {
      const socket = createConnection(proxy.port, proxy.host);
      socket.write(Buffer.from([0x16, 3, 1, 0, 5]));
      expect(errorFields(await firstBytes(socket)).get('M')).toContain('sslmode=disable');
      socket.destroy();
    });
  });
});

describe('the extended protocol', () => {
  test('gives every statement of a pipeline its own locks', async () => {
    const database = await temporaryDatabase(18, { sql: T });
    await withProxy(database.url, {}, async ({ url, statements }) => {
      const client = await RawClient.connect(url);
      client.send(
        ...simple('alter table t add a int'),
        ...simple('insert into t values (1)'),
        ...simple('create index on t (v)'),
        syncFrame(),
      );
      const told = await client.until('Z');
      expect(told.filter((line) => line.startsWith('C'))).toHaveLength(3);
      await client.close();
      expect(statements().map(({ statement, locks }) => [statement.transaction, locks?.exactness])).toEqual([
        [1, 'exact'],
        [1, 'exact'],
        [1, 'exact'],
      ]);
      expect(modes(statements()[0])).toEqual(['AccessExclusiveLock']);
      expect(modes(statements()[1])).toEqual(['RowExclusiveLock']);
    });
  });

  test('goes on behind an error at the Sync, and says that the failed locks are unknown', async () => {
    const database = await temporaryDatabase(18, { sql: T });
    await withProxy(database.url, {}, async ({ url, statements }) => {
      const client = await RawClient.connect(url);
      client.send(
        ...simple('insert into t values (1)'),
        ...simple('select 1/0'),
        ...simple('insert into t values (2)'),
        syncFrame(),
        ...simple('select 3'),
        syncFrame(),
      );
      const told = await client.until('Z', 2);
      expect(told.filter((line) => /^[CEZ]/.test(line)).map((line) => line[0])).toEqual([
        'C',
        'E',
        'Z',
        'C',
        'Z',
      ]);
      await client.close();
      expect(statements().map(({ locks }) => locks?.exactness)).toEqual(['exact', 'unknown', 'exact']);
      expect(statements()[1]?.outcome?.error?.get('C')).toBe('22012');
    });
  });

  test('does not wait for the end of a portal that is fetched from in parts', async () => {
    const database = await temporaryDatabase(18, { sql: T });
    await withProxy(database.url, {}, async ({ url, statements }) => {
      const client = await RawClient.connect(url);
      client.send(parseFrame('', 'select * from generate_series(1, 5)'));
      client.send(...bindFrames('p', ''), executeFrame('p', 2), encodeMessage('H'.charCodeAt(0)));
      expect((await client.until('s')).filter((line) => line.startsWith('D'))).toHaveLength(2);
      client.send(executeFrame('p', 2), encodeMessage('H'.charCodeAt(0)));
      expect((await client.until('s')).filter((line) => line.startsWith('D'))).toHaveLength(2);
      client.send(executeFrame('p', 2), syncFrame());
      expect((await client.until('Z')).filter((line) => line.startsWith('D'))).toHaveLength(1);
      await client.close();
      expect(statements()).toHaveLength(1);
      expect(statements()[0]).toMatchObject({ outcome: { tag: 'SELECT 1' }, locks: { exactness: 'exact' } });
    });
  });

  test('copies in with the Sync ahead of the data, as libpq sends it', async () => {
    const database = await temporaryDatabase(18, { sql: T });
    await withProxy(database.url, {}, async ({ url }) => {
      const client = await RawClient.connect(url);
      client.send(...simple('copy t from stdin'), syncFrame());
      await client.until('G');
      client.send(copyData('1\tone\n'), copyData('2\ttwo\n'), encodeMessage('c'.charCodeAt(0)), syncFrame());
      expect(await client.until('Z')).toEqual(['C "COPY 2\\u0000"', 'Z "I"']);
      expect(await client.query('select count(*) from t')).toContain(
        'D "\\u0000\\u0001\\u0000\\u0000\\u0000\\u00012"',
      );
      await client.close();
    });
  });

  test.each(['simple', 'extended'])('drops what is copied in behind an error (%s)', async (protocol) => {
    const database = await temporaryDatabase(18, { sql: T });
    await withProxy(database.url, {}, async ({ url }) => {
      const client = await RawClient.connect(url);
      if (protocol === 'simple') client.send(query('copy t from stdin'));
      else client.send(...simple('copy t from stdin'));
      if (protocol === 'extended') client.send(encodeMessage('H'.charCodeAt(0)));
      await client.until('G');
      client.send(copyData('not a number\tx\n'), ...Array.from({ length: 50 }, () => copyData('3\tx\n')));
      const answer = client.until('Z');
      client.send(copyData('4\tx\n'), encodeMessage('c'.charCodeAt(0)));
      if (protocol === 'extended') client.send(syncFrame());
      expect((await answer).map((line) => line[0])).toEqual(['E', 'Z']);
      expect(await client.query('select 1')).toContain('Z "I"');
      await client.close();
    });
  });
});

describe.each(['exact', 'off'] as const)('the connection, observed %s,', (observe) => {
  test('passes a cancel request on', async () => {
    const database = await temporaryDatabase(18, { sql: T });
    await withProxy(database.url, { observe }, async ({ url }) => {
      const client = await RawClient.connect(url, { application_name: 'cancels' });
      client.send(query(sleeper));
      await running(database.url, 'cancels', 1);
      await client.upstream.cancel();
      expect((await client.until('Z')).join()).toContain('C=57014');
      await client.close();
    });
  });

  test('cancels what a client left running when it vanished', async () => {
    const database = await temporaryDatabase(18);
    await withProxy(database.url, { observe }, async ({ url }) => {
      const client = await RawClient.connect(url, { application_name: 'vanishes' });
      client.send(query(sleeper));
      await running(database.url, 'vanishes', 1);
      client.upstream.socket.destroy();
      await running(database.url, 'vanishes', 0);
    });
  });

  test('ends what runs when the proxy is closed', async () => {
    const database = await temporaryDatabase(18);
    await withProxy(database.url, { observe }, async ({ url, proxy }) => {
      const client = await RawClient.connect(url, { application_name: 'closed' });
      client.send(query(sleeper));
      await running(database.url, 'closed', 1);
      await proxy.close();
      await running(database.url, 'closed', 0);
      client.upstream.socket.destroy();
    });
  });

  test('gives a client that has ended its half the answers it waits for', async () => {
    const database = await temporaryDatabase(18);
    await withProxy(database.url, { observe }, async ({ url }) => {
      const client = await RawClient.connect(url);
      client.upstream.socket.allowHalfOpen = true;
      client.upstream.socket.end(query("select 'late' from pg_sleep(0.2)"));
      const told = await client.until('Z');
      expect(told.some((line) => line.includes('late'))).toBe(true);
      expect(await client.until('Z')).toEqual(['(closed)']);
      client.upstream.socket.destroy();
    });
  });
});

test('the answer to a statement in a block comes in one piece, as from the server', async () => {
  const database = await temporaryDatabase(18, { sql: T });
  await withProxy(database.url, {}, async ({ url }) => {
    const client = await RawClient.connect(url);
    await client.query('begin');
    let pieces = 0;
    client.upstream.socket.on('data', () => pieces++);
    for (let column = 0; column < 20; column++) await client.query(`alter table t add column c${column} int`);
    expect(pieces).toBe(20);
    await client.close();
  });
});

describe('the connection', () => {
  test('serves many clients at a time, and leaves nothing when it is closed', async () => {
    const database = await temporaryDatabase(18, { sql: T });
    await withProxy(database.url, {}, async ({ url, proxy, statements }) => {
      const clients = await Promise.all(
        Array.from({ length: 80 }, async () => {
          const client = new Client(url);
          client.on('error', () => {});
          await client.connect();
          return client;
        }),
      );
      await Promise.all(
        clients.map(async (client, index) => {
          await client.query('insert into t values ($1)', [index]);
          await client.query(`update t set v = 'x' where id = ${index}`);
        }),
      );
      expect(statements()).toHaveLength(160);
      await proxy.close();
      await Promise.all(clients.map((client) => client.end().catch(() => {})));
      await running(database.url, '', 0);
    });
  });

  test('survives the loss of what reads the locks, and says that they are unknown', async () => {
    const database = await temporaryDatabase(18, { sql: T });
    await withProxy(database.url, {}, async ({ url, statements }) => {
      await withClient(url, async (client) => {
        await client.query('alter table t add a int');
        await withClient(database.url, (other) =>
          other.query(
            "select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = 'safemigrate observe'",
          ),
        );
        await client.query('alter table t add b int');
      });
      expect(statements().map(({ locks }) => locks?.exactness)).toEqual(['exact', 'unknown']);
    });
  });

  test('that is cut off has failed in every statement that the server may have run, also those sent ahead', async () => {
    const database = await temporaryDatabase(18);
    const relay = await startRelay(database.url);
    const throughRelay = new URL(database.url);
    throughRelay.port = String(relay.port);
    await withProxy(throughRelay.href, { observe: 'sampled' }, async ({ url, statements }) => {
      const client = await RawClient.connect(url);
      for (const sql of ['select pg_sleep(60)', 'select 2'])
        client.send(parseFrame('', sql), ...bindFrames('', ''), executeFrame('', 0));
      client.send(syncFrame());
      await expect.poll(() => statements().length).toBe(1);
      await relay.close();
      await client.until('Z');
      expect(statements().map(({ statement, outcome }) => [statement.sql, outcome?.error?.get('C')])).toEqual(
        [
          ['select pg_sleep(60)', '08006'],
          ['select 2', '08006'],
        ],
      );
    });
  });

  test('ends with the database that is dropped under it', async () => {
    const database = await temporaryDatabase(18, { sql: T });
    await withProxy(database.url, {}, async ({ url, events }) => {
      const client = await RawClient.connect(url);
      await client.query('begin; alter table t add a int');
      await database.drop();
      expect((await client.until('Z')).at(-1)).toBe('(closed)');
      expect(events.at(-1)?.type).toBe('session-end');
      expect(events.findLast((event) => event.type === 'transaction-end')).toMatchObject({
        outcome: 'rolled back',
      });
      client.upstream.socket.destroy();
    });
  });
});

describe('the gate', () => {
  const gate = {
    before: ({ sql }: { sql: string }) =>
      sql.includes('forbidden')
        ? ({ sqlstate: '42501', message: 'this may not run', hint: 'ask' } as const)
        : ('run' as const),
  };

  test.each([
    ['simple', 'forbidden', undefined],
    ['extended', 'select forbidden($1)', ['x']],
  ])(
    'answers in the place of the server, and a transaction fails of it (%s)',
    async (_name, text, values) => {
      const database = await temporaryDatabase(18);
      await withProxy(database.url, { gate }, async ({ url, statements }) => {
        await withClient(url, async (client) => {
          const refused = { code: '42501', message: 'this may not run', hint: 'ask' };
          await expect(client.query({ text, ...(values ? { values } : {}) })).rejects.toMatchObject(refused);
          await client.query('begin');
          await expect(client.query({ text, ...(values ? { values } : {}) })).rejects.toMatchObject(refused);
          await expect(client.query('select 1')).rejects.toMatchObject({ code: '25P02' });
          await client.query('rollback');
          expect((await client.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
        });
        expect(statements()[0]?.outcome?.error?.get('C')).toBe('42501');
      });
    },
  );

  test.each(['exact', 'sampled', 'off'] as const)(
    'is asked about each statement, once for a repetition of DML (%s)',
    async (observe) => {
      const asked: string[] = [];
      const asking: ProxyOptions['gate'] = {
        before: ({ sql }) => {
          asked.push(sql);
          return 'run';
        },
      };
      const database = await temporaryDatabase(18, { sql: T });
      await withProxy(database.url, { observe, gate: asking }, async ({ url, statements }) => {
        await withClient(url, async (client) => {
          await client.query("insert into t values (1, 'one');");
          await client.query('insert into t values ($1, $2)', [2, 'two']);
          await expect(client.query('insert into t values (1)')).rejects.toMatchObject({ code: '23505' });
          expect((await client.query('select from t')).rowCount).toBe(2);
        });
        const inserts = ["insert into t values (1, 'one')", 'insert into t values ($1, $2)'];
        expect(asked).toEqual([...inserts, 'insert into t values (1)', 'select from t']);
        expect(
          statements().map(({ statement: { sql, shape }, outcome }) => [sql, shape, outcome?.tag]),
        ).toEqual(
          observe === 'off'
            ? []
            : [
                [inserts[0], 'insert into t values (?, ?)', 'INSERT 0 1'],
                [inserts[1], inserts[1], 'INSERT 0 1'],
                ['insert into t values (1)', 'insert into t values (?)', null],
                ['select from t', 'select from t', 'SELECT 2'],
              ],
        );
      });
    },
  );

  test('lets nothing of a text run of which it refuses a part', async () => {
    const database = await temporaryDatabase(18);
    await withProxy(database.url, { gate }, async ({ url }) => {
      await withClient(url, async (client) => {
        await expect(client.query('create table made (i int); select forbidden()')).rejects.toMatchObject({
          code: '42501',
        });
        expect((await client.query("select to_regclass('made') as made")).rows).toEqual([{ made: null }]);
      });
    });
  });
});

const sleeper = 'select pg_sleep(60)';

function modes(statement: { locks: { locks: readonly { mode: string }[] | null } | undefined } | undefined) {
  return statement?.locks?.locks?.map(({ mode }) => mode);
}

function simple(sql: string): Buffer[] {
  return [parseFrame('', sql), ...bindFrames('', ''), executeFrame('', 0)];
}

function copyData(text: string): Buffer {
  return encodeMessage('d'.charCodeAt(0), text);
}

function startup(version: number, parameters: string): Buffer {
  const body = Buffer.concat([int32(version), Buffer.from(parameters)]);
  return Buffer.concat([int32(body.length + 4), body]);
}

function firstBytes(socket: Socket): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    socket.once('data', resolve);
    socket.once('error', reject);
  });
}

/** Waits until so many sessions of the name, but the one that asks, run something in the database. */
/** Sessions that are at work on the sleeper; for none, there must be no session any more. */
async function running(url: string, name: string, count: number): Promise<void> {
  const atWork = count === 0 ? '' : `and state = 'active' and query like '%pg_sleep%'`;
  await withClient(url, async (client) => {
    await expect
      .poll(
        async () => {
          const { rows } = await client.query<{ count: string }>(
            `select count(*) from pg_stat_activity
            where datname = current_database() and pid <> pg_backend_pid() and application_name = $1 ${atWork}`,
            [name],
          );
          return Number(rows[0]?.count);
        },
        { timeout: 60_000 },
      )
      .toBe(count);
  });
}
