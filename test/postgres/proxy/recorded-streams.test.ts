import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Client, QueryConfig } from 'pg';
import { describe, expect, test } from 'vitest';
import { FROM_CLIENT, FROM_SERVER, StartupSplitter } from '../../../src/postgres/protocol/frames.ts';
import { query, SYNC } from '../../../src/postgres/protocol/messages.ts';
import { temporaryDatabase, withClient } from '../../helpers/database.ts';
import { bindFrames, executeFrame, meaningOf, parseFrame, split } from '../../helpers/frames.ts';
import { project } from '../../helpers/projects.ts';
import { withProxy } from '../../helpers/proxy.ts';
import { RawClient } from '../../helpers/raw-client.ts';
import { startRecorder } from '../../helpers/recording.ts';
import { skipReason } from '../../helpers/requirements.ts';
import { OLDEST_AND_NEWEST } from '../../helpers/servers.ts';

const SETUP = `create table t (id int primary key, v text);
insert into t select n, repeat('é', n) from generate_series(1, 20) n`;

const driver = (use: (client: Client) => Promise<unknown>) => (url: string) => withClient(url, use);
const raw = (use: (client: RawClient) => Promise<unknown>) => async (url: string) => {
  const client = await RawClient.connect(url);
  const told = await use(client);
  await client.close();
  return told;
};
const rowsOf = async (client: Client, query: string | QueryConfig, values: unknown[] = []) => {
  const given = values.length > 0 && typeof query === 'string' ? { text: query, values } : query;
  const results = [await client.query(given)].flat();
  return results.map(({ rows }) => rows);
};
const once = (sql: string) => [parseFrame('', sql), ...bindFrames('', ''), executeFrame('', 0)];

const psql = async (url: string) => {
  const script = [
    'select * from t',
    'begin',
    'alter table t add w int',
    'rollback',
    'select 1/0',
    'select 2',
  ];
  const args = ['-X', url, ...script.flatMap((sql) => ['-c', sql])];
  const copied = ['-c', '\\copy t to stdout', '-c', '\\echo done'];
  const { stdout, stderr } = await promisify(execFile)('psql', [...args, ...copied], {
    env: { ...process.env, PGGSSENCMODE: 'disable' },
  });
  return [stdout, stderr];
};

/** One conversation of each shape, and what the client made of the answers. */
const SHAPES: Record<string, (url: string) => Promise<unknown>> = {
  'simple, one statement and many': driver(async (client) => [
    await rowsOf(client, 'select * from t order by id'),
    await rowsOf(client, "insert into t values (100, 'x'); delete from t where id = 100"),
    await client.query('select 1/0').catch((error: Error) => error.message),
  ]),
  'extended with parameters': driver(async (client) => [
    await rowsOf(client, 'select * from t where id < $1 order by id', [7]),
    await client.query('select $1::int / 0', [1]).catch((error: Error) => error.message),
  ]),
  prepared: driver(async (client) => {
    const told: unknown[] = [];
    for (const id of [1, 2, 3])
      told.push(await rowsOf(client, { name: 'one', text: 'select v from t where id = $1', values: [id] }));
    return told;
  }),
  'a cursor': driver(async (client) => {
    await client.query('begin');
    await client.query('declare c cursor for select * from t order by id');
    const told = [await rowsOf(client, 'fetch 5 from c'), await rowsOf(client, 'fetch all from c')];
    await client.query('commit');
    return told;
  }),
  pipelined: raw(async (client) => {
    client.send(
      ...once('select 1'),
      SYNC,
      ...once("update t set v = '' where id = 1"),
      ...once('selec'),
      SYNC,
    );
    client.send(...once('select * from t order by id'), SYNC);
    return await client.until('Z', 3);
  }),
  'a portal in parts': raw(async (client) => {
    client.send(parseFrame('', 'select * from t order by id'), ...bindFrames('p', ''));
    client.send(executeFrame('p', 5), executeFrame('p', 9), executeFrame('p', 0), SYNC);
    return await client.until('Z');
  }),
  'COPY in and out': raw(async (client) => {
    client.send(query('copy t from stdin'));
    const asked = await client.until('G');
    const data = Buffer.from('200\tcopied\n201\té\n');
    const header = Buffer.from([0x64, 0, 0, 0, data.length + 4]);
    client.send(header, data, Buffer.from([0x63, 0, 0, 0, 4]));
    return [
      asked,
      await client.until('Z'),
      await client.query('copy (select * from t order by id) to stdout'),
    ];
  }),
};
const hasPsql = project('psql').available();
if (hasPsql === true) SHAPES.psql = psql;
else test.skipIf(skipReason(hasPsql))('the stream of psql', () => {});

/** The client's stream behind its start-up packet, which has no type. */
function withoutStartup(stream: Buffer): Buffer {
  return new StartupSplitter().push(stream)?.rest ?? Buffer.alloc(0);
}

describe.each(OLDEST_AND_NEWEST)('what a client and PostgreSQL %d really say', (version) => {
  test.each(Object.entries(SHAPES))('is the same in pieces, wherever it is cut: %s', async (_name, talk) => {
    const database = await temporaryDatabase(version, { sql: SETUP });
    const recorder = await startRecorder(database.url);
    await talk(recorder.url);
    const recordings = recorder.recordings();
    await recorder.close();
    expect(recordings.length).toBeGreaterThan(0);
    for (const { fromClient, fromServer } of recordings)
      for (const [direction, stream] of [
        [FROM_CLIENT, withoutStartup(fromClient)],
        [FROM_SERVER, fromServer],
      ] as const) {
        const whole = meaningOf(split(direction, [stream])).join('\n');
        expect(stream.length).toBeGreaterThan(50);
        for (let at = 0; at <= stream.length; at++) {
          const cut = split(direction, [stream.subarray(0, at), stream.subarray(at)]);
          if (meaningOf(cut).join('\n') !== whole) throw new Error(`another meaning when cut at ${at}`);
        }
        const bytes = [...stream].map((byte) => Buffer.from([byte]));
        expect(meaningOf(split(direction, bytes)).join('\n')).toBe(whole);
      }
  });

  test.each(Object.entries(SHAPES))(
    'comes through the proxy byte by byte as it does at once: %s',
    async (_name, talk) => {
      const [direct, proxied] = await Promise.all(
        [0, 1].map(() => temporaryDatabase(version, { sql: SETUP })),
      );
      if (!direct || !proxied) throw new Error('there are two');
      const expected = await talk(direct.url);
      const behind = await startRecorder(proxied.url, 1);
      await withProxy(behind.url, {}, async ({ url }) => {
        const before = await startRecorder(url, 1);
        expect(await talk(before.url)).toEqual(expected);
        await before.close();
      });
      await behind.close();
    },
  );
});
