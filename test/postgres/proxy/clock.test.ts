import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Server } from '../../../src/local-server/embedded.ts';
import { encodeMessage, FLUSH, int32, query } from '../../../src/postgres/protocol/messages.ts';
import { withClient } from '../../helpers/client.ts';
import { until } from '../../helpers/cutting.ts';
import { bindFrames, executeFrame, parseFrame, syncFrame } from '../../helpers/frames.ts';
import { ownServer } from '../../helpers/own-server.ts';
import { GUARDED, type ObservedStatement, withProxy } from '../../helpers/proxy.ts';
import { RawClient } from '../../helpers/raw-client.ts';
import { NEWEST } from '../../helpers/servers.ts';

const SET_UP = `create table t (id int); create table locked (id int);
create function slow() returns int language plpgsql immutable as 'begin perform pg_sleep(0.3); return 1; end';
create function late() returns trigger language plpgsql as 'begin perform pg_sleep(0.3); return null; end';
create constraint trigger late after delete on t deferrable initially deferred for each row execute function late();`;

/** Each statement sleeps, and has a text of its own, by which the server's log has its time. */
const sleeping = (mark: string, seconds = 0.3) => `select pg_sleep(${seconds}) as ${mark}`;
const alone = (sql: string) => [parseFrame('', sql), ...bindFrames('', ''), executeFrame('', 0)];
const PG_SLEEP_OID = 2626;
const copyData = encodeMessage(0x64, '1\n');
const copyDone = encodeMessage(0x63);

type Talk = (client: RawClient) => Promise<void>;

const send =
  (...frames: Buffer[]): Talk =>
  async (client) => {
    client.send(...frames);
    await client.until('Z');
  };

/** While another session keeps the table to itself for a while. */
const whileLocked =
  (url: string, talk: Talk): Talk =>
  async (client) => {
    await withClient(url, async (holder) => {
      await holder.query('begin; lock table locked in access exclusive mode');
      const said = talk(client);
      await until('the Parse waits', async () => {
        const { rows } = await holder.query('select 1 from pg_locks where not granted');
        return rows.length > 0;
      });
      await holder.query('select pg_sleep(0.3)');
      await holder.query('commit');
      await said;
    });
  };

const FORMS: Readonly<Record<string, (url: string) => Talk>> = {
  'a simple Query': () => send(query(sleeping('a'))),
  'a Query of several statements': () => send(query(`${sleeping('a')}; ${sleeping('b')}`)),
  'a block of simple Queries': () => async (client) => {
    for (const sql of ['begin', sleeping('a'), sleeping('b'), 'commit']) await client.query(sql);
  },
  'an extended statement alone': () => send(...alone(sleeping('a')), syncFrame()),
  'an extended statement that is planned for long': () => send(...alone('select slow() as a'), syncFrame()),
  'one whose Parse waits for a lock, and that is executed later, twice': (url) => async (client) => {
    await whileLocked(url, send(parseFrame('s', 'select * from locked'), syncFrame()))(client);
    for (const _ of [1, 2]) await send(...bindFrames('', 's'), executeFrame('', 0), syncFrame())(client);
  },
  'a Parse that is answered by itself': () => async (client) => {
    client.send(parseFrame('', sleeping('a')), FLUSH);
    await client.until('1');
    await send(...bindFrames('', ''), executeFrame('', 0), syncFrame())(client);
  },
  'a pipeline with one Sync': () =>
    send(...['a', 'b', 'c'].flatMap((mark) => alone(sleeping(mark))), syncFrame()),
  'a pipeline with a Sync behind each': () => async (client) => {
    client.send(...['a', 'b', 'c'].flatMap((mark) => [...alone(sleeping(mark)), syncFrame()]));
    await client.until('Z', 3);
  },
  'a batch of one prepared INSERT, with other statements in it': () => async (client) => {
    const insert = 'insert into t select 1 from (select pg_sleep(0.1)) a';
    await send(parseFrame('s', insert), syncFrame())(client);
    const once = [...bindFrames('', 's'), executeFrame('', 0)];
    await send(...once, syncFrame())(client);
    await send(...once, ...once, ...alone(sleeping('a')), ...once, ...once, syncFrame())(client);
  },
  'a portal that is fetched in parts, with pauses': (url) => async (client) => {
    const rows = 'select pg_sleep(0.15) as a from generate_series(1, 3)';
    client.send(parseFrame('', rows), ...bindFrames('', ''), executeFrame('', 1), FLUSH);
    await client.until('s');
    await withClient(url, (other) => other.query('select pg_sleep(0.3)'));
    client.send(executeFrame('', 1), FLUSH);
    await client.until('s');
    await send(executeFrame('', 0), syncFrame())(client);
  },
  'a COPY that waits for its data': (url) => async (client) => {
    client.send(...alone('copy t from stdin'), syncFrame());
    await client.until('G');
    await withClient(url, (other) => other.query('select pg_sleep(0.3)'));
    // The Sync that came in the middle of the COPY is none.
    await send(copyData, copyDone, syncFrame())(client);
  },
  'a simple COPY that waits for its data': (url) => async (client) => {
    client.send(query('copy t from stdin'));
    await client.until('G');
    await withClient(url, (other) => other.query('select pg_sleep(0.3)'));
    await send(copyData, copyDone)(client);
  },
  'a FunctionCall': () => {
    const argument = Buffer.alloc(8);
    argument.writeDoubleBE(0.3);
    const values = Buffer.concat([Buffer.from([0, 1, 0, 1, 0, 1]), int32(8), argument, Buffer.from([0, 1])]);
    return send(encodeMessage(0x46, int32(PG_SLEEP_OID), values));
  },
};

const LINE =
  /^(\d+) LOG: {2}duration: ([\d.]+) ms {2}(?:statement|(?:parse|bind|execute(?: fetch from)?) \S+): (.*)$/;
const CALL = /^(\d+) LOG: {2}duration: ([\d.]+) ms {2}fastpath function call: "\w+" \(OID (\d+)\)$/;

let server: Server;

/** The times that the server wrote down for the statements of one backend, by their texts. */
async function logged(pid: number): Promise<Map<string, number>> {
  const times = new Map<string, number>();
  for (const line of (await readFile(join(server.folder, 'log'), 'utf8')).split('\n')) {
    const [, backend, ms, text = ''] = LINE.exec(line) ?? CALL.exec(line) ?? [];
    if (Number(backend) === pid) times.set(text, (times.get(text) ?? 0) + Number(ms));
  }
  return times;
}

describe.each(NEWEST)('PostgreSQL %d writes down the same times as are measured', (version) => {
  beforeAll(async () => {
    server = await ownServer(version, {
      settings: {
        log_line_prefix: '%p ',
        log_min_duration_statement: '0',
      },
    });
    await withClient(server.url, (client) => client.query(SET_UP));
  });

  afterAll(() => server?.stop());

  const exact = Object.keys(FORMS).map((form) => [form, 'exact'] as const);
  // The server answers a Query of several statements at once, and its report says so.
  const sampled = Object.keys(FORMS).filter((form) => form !== 'a Query of several statements');

  test.concurrent.each([...exact, ...sampled.map((form) => [form, 'sampled'] as const)])(
    'for %s (%s)',
    async (form, observe) => {
      await withProxy(
        server.url,
        observe === 'sampled' ? GUARDED : {},
        async ({ url, statements, events }) => {
          let differences = ['not tried'];
          // Beside other work a program of this machine may get no processor for longer than any tolerance.
          for (let attempt = 1; attempt <= 10 && differences.length > 0; attempt++) {
            events.length = 0;
            const client = await RawClient.connect(url);
            await FORMS[form]?.(server.url)(client);
            await client.close();
            differences = await differencesOf(statements());
          }
          expect(differences).toEqual([]);
        },
      );
    },
  );

  test('the rows of a portal that is fetched in parts are those of all parts', async () => {
    await withProxy(server.url, {}, async ({ url, statements }) => {
      const client = await RawClient.connect(url);
      client.send(parseFrame('', 'select generate_series(1, 12)'), ...bindFrames('', ''));
      client.send(executeFrame('', 5), executeFrame('', 5), executeFrame('', 5), syncFrame());
      const answers = await client.until('Z');
      await client.close();
      const rows = answers.filter((line) => line.startsWith('D')).length;
      expect(statements().map(({ outcome }) => outcome?.rows)).toEqual([rows]);
    });
  });
});

/** Compares with the server's log. A statement that is not in it, or takes no time, is a difference as well. */
async function differencesOf(statements: readonly ObservedStatement[]): Promise<string[]> {
  const measured = new Map<string, number>();
  for (const { statement, outcome } of statements) {
    const text = /with OID (\d+)/.exec(statement.sql)?.[1] ?? statement.sql;
    measured.set(text, (measured.get(text) ?? 0) + (outcome?.durationMs ?? Number.NaN));
  }
  const times = await logged(statements[0]?.statement.pid ?? 0);
  const differences = [...measured].flatMap(([text, ms]) => {
    const inLog = times.get(text) ?? Number.NaN;
    return Math.abs(ms - inLog) < 20 + inLog / 20 ? [] : [`${text}: measured ${ms} ms, logged ${inLog} ms`];
  });
  return Math.max(...measured.values()) > 250 ? differences : [...differences, 'nothing took long'];
}
