import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { startTraffic } from '../helpers/traffic.ts';
import { median, recordFigures } from './figures.ts';

/**
 * VACUUM FULL of a large table on PostgreSQL 19 while others write, beside what --propose makes of it, REPACK (CONCURRENTLY): in the
 * rehearsals under load, and on the server itself.
 */
const GB = 2 ** 30;
const TABLE_MB = 400;
const WRITERS = 8;
const PAUSE_MS = 5;
const ROUNDS = 3;
const STATEMENT = 'VACUUM FULL big';
const SAFER = 'REPACK (CONCURRENTLY) big';
const WRITE = 'UPDATE big SET n = n + 1 WHERE id = $1';

describe.skipIf(skipReason(await loopFileSystemObstacle('xfs')))('on PostgreSQL 19', () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 12 * GB);
    const settings = { shared_buffers: '512MB', max_wal_size: '4GB', autovacuum: 'off' };
    server = await placedServer(19, { parent: disk.folder, settings });
    const rows = Math.floor((TABLE_MB * 2 ** 20) / 1080);
    await withClient(server.url, (client) =>
      client.query(`CREATE TABLE big (id int PRIMARY KEY, n int NOT NULL DEFAULT 0, text text) WITH (fillfactor = 95);
        INSERT INTO big (id, text) SELECT i, repeat(md5(i::text), 32) FROM generate_series(1, ${rows}) i; ANALYZE big`),
    );
  }, 600_000);
  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  }, 60_000);

  test('writers wait less for the proposal than for VACUUM FULL', async () => {
    const waits: { rehearsed: number[][]; felt: number[][] } = { rehearsed: [], felt: [] };
    for (let round = 0; round < ROUNDS; round++) {
      waits.rehearsed.push(await rehearsedWaits());
      waits.felt.push([await feltWait(STATEMENT), await feltWait(SAFER)]);
    }
    const rows = [rowOf('in the rehearsals under load', waits.rehearsed), rowOf('on the server', waits.felt)];
    recordFigures(`longest wait of ${WRITERS} writers, a table of ${TABLE_MB} MB, PostgreSQL 19: ms`, rows, [
      `Medians of ${ROUNDS} rounds; VACUUM FULL and what --propose makes of it, REPACK (CONCURRENTLY).`,
    ]);
  }, 900_000);

  async function rehearsedWaits(): Promise<number[]> {
    const traffic = await startTraffic(server.url, WRITERS, [WRITE], PAUSE_MS);
    const { report, stderr } = await rehearse(server.url, psqlCommand('-c', STATEMENT), {
      env: { SAFEMIGRATE_CLONE: 'cluster', SAFEMIGRATE_LOAD_WINDOW: '4s', SAFEMIGRATE_LOAD_WARMUP: '2s' },
      args: ['--load', '--propose', path.join(temporaryFolder(), 'safer.sql')],
    }).finally(() => traffic.stop());
    const { proposal } = report;
    expect(proposal?.outcome, stderr).toBe('proved');
    return [proposal?.original.load, proposal?.safer?.load].map((load) => load?.longestWaitMs ?? Number.NaN);
  }

  /** The longest time that an UPDATE took while the statement ran. */
  async function feltWait(sql: string): Promise<number> {
    let [longest, ended] = [0, false];
    const write = async (writer: number) => {
      const client = new Client({ connectionString: server.url });
      await client.connect();
      for (let id = writer + 1; !ended; id += WRITERS) {
        const from = performance.now();
        await client.query(WRITE, [id]);
        longest = Math.max(longest, performance.now() - from);
        await delay(Math.random() * 2 * PAUSE_MS);
      }
      await client.end();
    };
    const writers = Array.from({ length: WRITERS }, (_, writer) => write(writer));
    await withClient(server.url, (client) => client.query(sql));
    ended = true;
    await Promise.all(writers);
    return longest;
  }
});

function rowOf(where: string, rounds: readonly (readonly number[])[]) {
  const [full, safer] = [0, 1].map((column) => median(rounds.map((each) => each[column] ?? Number.NaN)));
  return {
    'longest wait': where,
    'VACUUM FULL': Math.round(full ?? 0),
    proposal: Math.round(safer ?? 0),
    'proposal / VACUUM FULL': ((safer ?? 0) / (full ?? 1)).toFixed(2),
  };
}
