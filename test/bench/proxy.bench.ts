import { fork } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, test } from 'vitest';
import { type Server, startServer } from '../../src/local-server/embedded.ts';
import { encodeMessage, query } from '../../src/postgres/protocol/messages.ts';
import type { Observe } from '../../src/proxy/observed.ts';
import { bundled } from '../helpers/bundled.ts';
import { withClient } from '../helpers/client.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { RawClient } from '../helpers/raw-client.ts';
import { median, recordFigures } from './figures.ts';

/**
 * Each case directly, through a pipe that only copies bytes, and through the proxy, in turns; medians of the turns.
 * Besides the time on the clock, which includes waiting for whatever else the machine does, the CPU time of each side.
 * PROXY_NODE_OPTIONS=--cpu-prof shows where the proxy's goes. With `fsync` a server is as one is that has data to lose;
 * without, a small statement takes next to nothing, and what stands between takes the rest.
 */
const TURNS = Number(process.env.TURNS ?? 5);
/** Of what takes some milliseconds: as many as it takes until the engine has compiled what runs, as it has in the longer cases. */
const SHORT_TURNS = 5 * TURNS;
const INSERTS = 5_000;
const GB = 2 ** 30;
const xfsObstacle = await loopFileSystemObstacle('xfs');
const DDL_STATEMENTS = 200;
const ROWS = 1_000_000;
/** Copied: as much as it takes to see more of the rate than of a beginning that a minute of copying would not show. */
const COPIED_ROWS = 4_000_000;

/** Runs the case; resolves with the process id of the backend that served it, which is still there, and its end. */
type Case = (url: string) => Promise<Served>;

interface Served {
  readonly backend: number;
  readonly close: () => Promise<unknown>;
}

interface Cost {
  readonly wallMs: number;
  readonly clientMs: number;
  readonly betweenMs: number;
  readonly backendMs: number;
  readonly observerMs: number;
}

async function viaPg(url: string, use: (client: Client) => Promise<unknown>): Promise<Served> {
  const client = new Client(url);
  await client.connect();
  await use(client);
  const { processID } = client as unknown as { processID: number };
  return { backend: processID, close: () => client.end() };
}

async function viaRaw(url: string, use: (client: RawClient) => Promise<void>): Promise<Served> {
  const client = await RawClient.connect(url);
  await use(client);
  return { backend: client.upstream.pid, close: () => client.close() };
}

const repeat = async (count: number, run: (index: number) => Promise<unknown>) => {
  for (let index = 0; index < count; index++) await run(index);
};

const insert = (index: number) => `insert into t values (${index}, 'row number ${index}')`;
const addColumn = (index: number) => `alter table t add column c${index} int`;

const CASES: Record<string, Case> = {
  [`${INSERTS} INSERTs, simple`]: (url) =>
    viaPg(url, (client) => repeat(INSERTS, (index) => client.query(insert(index)))),
  [`${INSERTS} INSERTs, prepared`]: (url) =>
    viaPg(url, (client) =>
      repeat(INSERTS, (index) =>
        client.query({ name: 'i', text: 'insert into t values ($1, $2)', values: [index, 'row'] }),
      ),
    ),
  [`${INSERTS} INSERTs, simple, one transaction`]: (url) =>
    viaPg(url, async (client) => {
      await client.query('begin');
      await repeat(INSERTS, (index) => client.query(insert(index)));
      await client.query('commit');
    }),
  [`${INSERTS} INSERTs in one message`]: (url) =>
    viaPg(url, (client) =>
      client.query(Array.from({ length: INSERTS }, (_, index) => insert(index)).join(';\n')),
    ),
  [`${DDL_STATEMENTS} ALTER TABLE in one transaction`]: (url) =>
    viaPg(url, async (client) => {
      await client.query('begin');
      await repeat(DDL_STATEMENTS, (index) => client.query(addColumn(index)));
      await client.query('commit');
    }),
  [`${DDL_STATEMENTS} ALTER TABLE`]: (url) =>
    viaPg(url, (client) => repeat(DDL_STATEMENTS, (index) => client.query(addColumn(index)))),
  [`UPDATE of ${ROWS} rows`]: (url) =>
    viaPg(url, async (client) => {
      await client.query(`insert into t select g, 'x' from generate_series(1, ${ROWS}) g`);
      await client.query("update t set v = 'y'");
    }),
  [`COPY of ${COPIED_ROWS} rows in`]: (url) =>
    viaRaw(url, async (client) => {
      client.send(query('copy t from stdin'));
      await client.until('G');
      const { socket } = client.upstream;
      for (let row = 0; row < COPIED_ROWS; row += 1000) {
        const rows = Array.from({ length: 1000 }, (_, index) =>
          encodeMessage('d'.charCodeAt(0), `${row + index}\trow number ${row + index}\n`),
        );
        if (!socket.write(Buffer.concat(rows))) await once(socket, 'drain');
      }
      client.send(encodeMessage('c'.charCodeAt(0)));
      await client.until('Z');
    }),
  [`${COPIED_ROWS} rows out`]: (url) =>
    viaRaw(url, async (client) => {
      client.send(
        query(`copy (select g, 'row number ' || g from generate_series(1, ${COPIED_ROWS}) g) to stdout`),
      );
      for (;;) {
        const piece = await client.upstream.reader.next();
        if (!piece || (piece.kind === 'frame' && piece.type === 'Z'.charCodeAt(0))) break;
      }
    }),
};

/** What observing DDL one by one takes by itself: a way to the server and back for each, one of them to read locks. */
const BY_HAND = `${DDL_STATEMENTS} ALTER TABLE`;
const LOCKS_OF =
  "select string_agg(relation || mode, ' ') from pg_lock_status() where pid = $1 and granted and locktype = 'relation'";

const byHand: Case = (url) =>
  viaPg(url, (client) =>
    withClient(url, async (watcher) => {
      const { processID } = client as unknown as { processID: number };
      await repeat(DDL_STATEMENTS, async (index) => {
        void client.query('begin');
        await client.query(addColumn(index));
        await watcher.query({ name: 'locks', text: LOCKS_OF, values: [processID] });
        await client.query('commit');
      });
    }),
  );

describe.each(['on', 'off'] as const)(
  'through the proxy, as a ratio to a direct run, with fsync %s',
  (fsync) => {
    const cases = Object.entries(CASES).filter(([name]) => fsync === 'off' || !name.includes(String(ROWS)));
    let disk: LoopFileSystem | undefined;
    let server: Server;
    let pipe: Between;
    let proxies: Record<string, Between>;

    beforeAll(async () => {
      // Where a commit waits for a file system's log, as it does in production.
      if (fsync === 'on' && !xfsObstacle) disk = await loopFileSystem('xfs', 12 * GB);
      server = await startServer({
        ...(disk && { parent: disk.folder }),
        settings: { fsync, autovacuum: 'off', max_wal_size: '4GB' },
      });
      pipe = await between('pipe', server.url);
      proxies = {
        exact: await between('exact', server.url),
        sampled: await between('sampled', server.url),
        off: await between('off', server.url),
        'sampled, sandbox': await between('sampled', server.url, 'sandbox'),
        'off, sandbox': await between('off', server.url, 'sandbox'),
      };
    }, 60_000);

    afterAll(async () => {
      for (const each of [pipe, ...Object.values(proxies)]) await each.stop();
      await server.stop();
      await disk?.destroy();
    });

    test.each(cases)('%s', async (name, run) => {
      const ways: Record<string, () => Promise<Cost>> = {
        direct: () => costOf(run, server.url, undefined),
        pipe: () => costOf(run, pipe.url, pipe),
        ...(name === BY_HAND ? { 'by hand': () => costOf(byHand, server.url, undefined) } : {}),
        ...Object.fromEntries(
          Object.entries(proxies).map(([observe, proxy]) => [observe, () => costOf(run, proxy.url, proxy)]),
        ),
      };
      const costs: Record<string, Cost[]> = {};
      const turns = name.includes('ALTER TABLE') ? SHORT_TURNS : TURNS;
      for (let turn = 0; turn < turns; turn++)
        for (const [way, cost] of Object.entries(ways)) {
          await withClient(server.url, (client) =>
            client.query('drop table if exists t; create table t (id int, v text); checkpoint'),
          );
          costs[way] = [...(costs[way] ?? []), await cost()];
        }
      record(`${name}, fsync ${fsync}`, costs);
    });
  },
);

interface Between {
  readonly url: string;
  cost(): Promise<{ cpuMs: number; backends: number[] }>;
  stop(): Promise<void>;
}

async function between(kind: 'pipe' | Observe, url: string, where = ''): Promise<Between> {
  const script = bundled('test/bench/between.ts');
  const execArgv = (kind !== 'pipe' && process.env.PROXY_NODE_OPTIONS?.split(' ')) || [];
  const child = fork(script, [kind, url, where], { execArgv });
  const gone = new AbortController();
  child.on('exit', () => gone.abort());
  const said = async (): Promise<unknown> => (await once(child, 'message', { signal: gone.signal }))[0];
  return {
    url: String(await said()),
    cost: async () => {
      child.send('cost');
      return (await said()) as { cpuMs: number; backends: number[] };
    },
    stop: async () => {
      const exited = once(child, 'exit');
      child.disconnect();
      await exited;
      await rm(script, { force: true });
    },
  };
}

async function costOf(run: Case, url: string, through: Between | undefined): Promise<Cost> {
  const look = async () => {
    const { cpuMs, backends } = (await through?.cost()) ?? { cpuMs: 0, backends: [] };
    const { user, system } = process.cpuUsage();
    const observerMs = backends.reduce((sum, pid) => sum + onCpuMs(pid), 0);
    return { wallMs: performance.now(), clientMs: (user + system) / 1000, betweenMs: cpuMs, observerMs };
  };
  const before = await look();
  const { backend, close } = await run(url);
  const wallMs = performance.now();
  const after = await look();
  const backendMs = onCpuMs(backend);
  await close();
  return {
    wallMs: wallMs - before.wallMs,
    clientMs: after.clientMs - before.clientMs,
    betweenMs: after.betweenMs - before.betweenMs,
    backendMs,
    observerMs: after.observerMs - before.observerMs,
  };
}

/** Time that a process of this machine has had on a CPU; NaN where that is not told. */
function onCpuMs(pid: number): number {
  try {
    return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
  } catch {
    return Number.NaN;
  }
}

function record(name: string, costs: Record<string, Cost[]>): void {
  const of = (way: string, read: (cost: Cost) => number) => median((costs[way] ?? []).map(read));
  const total = (cost: Cost) => cost.clientMs + cost.betweenMs + cost.backendMs + cost.observerMs;
  const rows = Object.keys(costs).map((way) => {
    const ratio = (read: (cost: Cost) => number) => (of(way, read) / of('direct', read)).toFixed(2);
    const ms = (read: (cost: Cost) => number) => Math.round(of(way, read));
    return {
      way,
      ms: ms(({ wallMs }) => wallMs),
      ratio: ratio(({ wallMs }) => wallMs),
      'of the pipe': (of(way, ({ wallMs }) => wallMs) / of('pipe', ({ wallMs }) => wallMs)).toFixed(2),
      'CPU ratio': ratio(total),
      'client CPU ms': ms(({ clientMs }) => clientMs),
      'between CPU ms': ms(({ betweenMs }) => betweenMs),
      'backend CPU ms': ms(({ backendMs }) => backendMs),
      'reading locks CPU ms': ms(({ observerMs }) => observerMs),
    };
  });
  recordFigures(name, rows);
}
