import type { AddressInfo } from 'node:net';
import { createConnection, createServer } from 'node:net';
import { Client } from 'pg';
import { bench, describe } from 'vitest';
import { message, query } from '../../src/wire/messages.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { withProxy } from '../helpers/proxy.ts';
import { RawClient } from '../helpers/raw-client.ts';

/** Each case directly, through a pipe that only copies bytes, and through the proxy, in turns; medians of the turns. */
const TURNS = 3;
const INSERTS = 5_000;
const DDL_STATEMENTS = 200;
const ROWS = 1_000_000;

type Case = (url: string) => Promise<void>;

const once = { iterations: 1, warmupIterations: 0, time: 0, warmupTime: 0 } as const;

async function connected(url: string, use: (client: Client) => Promise<void>): Promise<void> {
  const client = new Client(url);
  await client.connect();
  try {
    await use(client);
  } finally {
    await client.end();
  }
}

const repeat = async (count: number, run: (index: number) => Promise<unknown>) => {
  for (let index = 0; index < count; index++) await run(index);
};

const insert = (index: number) => `insert into t values (${index}, 'row number ${index}')`;

const CASES: Record<string, Case> = {
  [`${INSERTS} INSERTs, simple`]: (url) =>
    connected(url, (client) => repeat(INSERTS, (index) => client.query(insert(index)))),
  [`${INSERTS} INSERTs, prepared`]: (url) =>
    connected(url, (client) =>
      repeat(INSERTS, (index) =>
        client.query({ name: 'i', text: 'insert into t values ($1, $2)', values: [index, 'row'] }),
      ),
    ),
  [`${INSERTS} INSERTs, simple, one transaction`]: (url) =>
    connected(url, async (client) => {
      await client.query('begin');
      await repeat(INSERTS, (index) => client.query(insert(index)));
      await client.query('commit');
    }),
  [`${INSERTS} INSERTs in one message`]: (url) =>
    connected(
      url,
      async (client) =>
        void (await client.query(Array.from({ length: INSERTS }, (_, index) => insert(index)).join(';\n'))),
    ),
  [`${DDL_STATEMENTS} ALTER TABLE`]: (url) =>
    connected(url, (client) =>
      repeat(DDL_STATEMENTS, (index) => client.query(`alter table t add column c${index} int`)),
    ),
  [`UPDATE of ${ROWS} rows`]: (url) =>
    connected(url, async (client) => {
      await client.query(`insert into t select g, 'x' from generate_series(1, ${ROWS}) g`);
      await client.query("update t set v = 'y'");
    }),
  [`COPY of ${ROWS} rows in`]: async (url) => {
    const client = await RawClient.connect(url);
    client.send(query('copy t from stdin'));
    await client.until('G');
    const { socket } = client.upstream;
    for (let row = 0; row < ROWS; row += 1000) {
      const rows = Array.from({ length: 1000 }, (_, index) =>
        message('d'.charCodeAt(0), `${row + index}\trow number ${row + index}\n`),
      );
      if (!socket.write(Buffer.concat(rows))) await new Promise((resolve) => socket.once('drain', resolve));
    }
    client.send(message('c'.charCodeAt(0)));
    await client.until('Z');
    await client.close();
  },
  [`${ROWS} rows out`]: async (url) => {
    const client = await RawClient.connect(url);
    client.send(query(`copy (select g, 'row number ' || g from generate_series(1, ${ROWS}) g) to stdout`));
    for (;;) {
      const piece = await client.upstream.reader.next();
      if (!piece || (piece.kind === 'frame' && piece.type === 'Z'.charCodeAt(0))) break;
    }
    await client.close();
  },
};

/** Copies bytes and nothing else: what any proxy in this process costs. */
async function pipeTo(url: string): Promise<{ url: string; close(): void }> {
  const target = new URL(url);
  const server = createServer({ noDelay: true }, (socket) => {
    const upstream = createConnection({ host: target.hostname, port: Number(target.port), noDelay: true });
    socket.pipe(upstream).pipe(socket);
    socket.on('error', () => upstream.destroy());
    upstream.on('error', () => socket.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const piped = new URL(url);
  piped.hostname = '127.0.0.1';
  piped.port = String((server.address() as AddressInfo).port);
  return { url: piped.href, close: () => server.close() };
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;
}

async function timed(run: () => Promise<void>): Promise<number> {
  const from = performance.now();
  await run();
  return performance.now() - from;
}

describe('through the proxy, as a ratio to a direct run', () => {
  for (const [name, run] of Object.entries(CASES))
    bench(
      name,
      async () => {
        const database = await temporaryDatabase(18, { sql: 'create table t (id int, v text)' });
        const pipe = await pipeTo(database.url);
        const times = { direct: [] as number[], piped: [] as number[], proxied: [] as number[] };
        await withProxy(database.url, {}, async ({ url }) => {
          const anew = () =>
            connected(database.url, async (client) => {
              await client.query('drop table t; create table t (id int, v text)');
            });
          for (let turn = 0; turn < TURNS; turn++) {
            await anew();
            times.direct.push(await timed(() => run(database.url)));
            await anew();
            times.piped.push(await timed(() => run(pipe.url)));
            await anew();
            times.proxied.push(await timed(() => run(url)));
          }
        });
        pipe.close();
        await database.drop();
        const [direct, piped, proxied] = [median(times.direct), median(times.piped), median(times.proxied)];
        const ratio = (value: number) => (value / direct).toFixed(2);
        console.log(
          `${name}: direct ${direct.toFixed(0)} ms, pipe ${ratio(piped)}, proxy ${ratio(proxied)} (${proxied.toFixed(0)} ms)`,
        );
      },
      once,
    );
});
