import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import { type CliResult, safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { until } from '../helpers/cutting.ts';
import { replicating } from '../helpers/online-trials.ts';
import { ownServer } from '../helpers/own-server.ts';
import { OLDEST_AND_NEWEST } from '../helpers/servers.ts';
import { SHADOWED_TABLES, startShadowedWriters } from '../helpers/shadowed-writers.ts';
import { databasesBeside, inDatabase } from '../helpers/swapping.ts';
import type { OnlineSwap } from '../helpers/swaps-under-load.ts';

const WIDER = 'ALTER TABLE lines ALTER COLUMN order_id TYPE bigint';
/** Between two transactions of a client: without it they would take all processors. */
const PAUSE_MS = 20;

async function shop(version: ServerVersion): Promise<[Server, string]> {
  const server = await ownServer(version, {
    settings: { ...replicating(version), max_slot_wal_keep_size: '1GB' },
  });
  const url = inDatabase(server.url, 'app');
  await withClient(server.url, (client) => client.query('CREATE DATABASE app CONNECTION LIMIT 50'));
  await withClient(url, (client) => client.query(SHADOWED_TABLES));
  return [server, url];
}

async function swapWithWayBack(url: string, migration: string, ...more: string[]): Promise<CliResult> {
  return safemigrate([
    ...[
      '--url',
      url,
      'swap',
      '--online',
      '--way-back',
      '1h',
      '--yes',
      '--format',
      'json',
      '--clone',
      'cluster',
    ],
    ...['--limit', 'cut-over=10s', ...more, '--', ...sqlCommand(migration)],
  ]);
}

function swapOf({ stdout, stderr }: CliResult) {
  if (stdout === '') throw new Error(`no report:\n${stderr}`);
  return JSON.parse(stdout).swap;
}

const rollback = (url: string, ...more: string[]) =>
  safemigrate(['rollback', '--yes', '--url', url, '--limit', 'cut-over=10s', ...more]);

async function listed(url: string) {
  const { stdout } = await safemigrate(['list', '--format', 'json', '--url', url]);
  const rows: { role: string; wayBack: { broken: { kind: string; reason: string } | null } | null }[] =
    JSON.parse(stdout);
  return rows.find(({ role, wayBack }) => role === 'original' && wayBack !== null)?.wayBack;
}

/** Checks what a rollback with all writes says of its costs, under the names of an online swap's. */
function expectCosts({ target, swap }: { target: { database: string }; swap: OnlineSwap }): void {
  expect(target).toEqual({ database: 'app' });
  const { outcome, steps, stallMs, online } = swap;
  expect({ outcome, online }).toMatchObject({
    outcome: 'swapped',
    online: { cloneClosedMs: null, cloneGapMs: null, catchUpMs: expect.any(Number), wayBack: null },
  });
  expect(online.rowsCompared).toBeGreaterThan(30);
  expect(online.attempts).toBeGreaterThanOrEqual(1);
  expect(stallMs).toBeGreaterThanOrEqual(online.cutOverClosedMs ?? Number.POSITIVE_INFINITY);
  // Our client may get answers until the step that closes the target has ended its session.
  const closing = steps.findLast(({ name }) => name === 'close')?.durationMs ?? 0;
  expect(online.cutOverGapMs).toBeGreaterThan((online.cutOverClosedMs ?? 0) - closing);
  const times = online.lag.map(({ atMs }) => atMs);
  expect(times.length).toBeGreaterThan(2);
  expect(times.length).toBeLessThanOrEqual(60);
  expect(times).toEqual(times.toSorted((one, other) => one - other));
  expect(Math.min(...online.lag.map(({ behindBytes }) => behindBytes))).toBeGreaterThanOrEqual(0);
  expect(online.cutOverAtMs).toBeGreaterThan(times[1] ?? Number.POSITIVE_INFINITY);
}

/** Names everything of a way back that is on the server. */
async function left(url: string): Promise<string[]> {
  const { rows } = await withClient(url, (client) =>
    client.query<{ name: string }>(
      `SELECT slot_name::text AS name FROM pg_replication_slots UNION ALL SELECT subname::text FROM pg_subscription
       UNION ALL SELECT pubname::text FROM pg_publication UNION ALL SELECT roname FROM pg_replication_origin`,
    ),
  );
  return rows.map(({ name }) => name);
}

async function cleaned(server: Server, url: string): Promise<void> {
  expect(
    await safemigrate(['clean', '--originals', '--rolled-back', '--older-than', '0s', '--url', url]),
  ).toMatchObject({
    exitCode: 0,
  });
  expect(await left(url)).toEqual([]);
  expect(await databasesBeside(server.url)).toEqual(['app']);
}

describe.each(OLDEST_AND_NEWEST)('PostgreSQL %d, a way back', (version) => {
  let server: Server;
  let url: string;
  beforeAll(async () => {
    [server, url] = await shop(version);
  });
  afterAll(() => server.stop());

  test('takes all back that clients write after the swap, and nothing of it stays', {
    timeout: 180_000,
  }, async () => {
    const writers = startShadowedWriters(url, 3, PAUSE_MS);
    const writeOn = async () => {
      const before = writers.committed();
      await until('clients write on', async () => writers.committed() > before + 30);
    };
    try {
      await writeOn();
      const swapped = await swapWithWayBack(url, WIDER);
      expect({ exitCode: swapped.exitCode, swap: swapOf(swapped) }).toMatchObject({
        exitCode: 0,
        swap: {
          outcome: 'swapped',
          online: {
            wayBack: {
              until: expect.any(String),
              failure: null,
              limits: ['values that integer does not take in public.lines.order_id'],
            },
          },
        },
      });
      await writeOn();
      expect(await listed(url)).toMatchObject({ broken: null, keptBytes: expect.any(Number) });
      const back = await rollback(url, '--format', 'json');
      expect(back, back.stderr).toMatchObject({ exitCode: 0 });
      expectCosts(JSON.parse(back.stdout));
      await writeOn();
    } finally {
      await writers.stop();
    }
    expect((await writers.compare(url)).wrong).toEqual([]);
    const { rows } = await withClient(url, (client) =>
      client.query(
        `SELECT format_type(atttypid, NULL) AS type, (SELECT datconnlimit FROM pg_database WHERE datname = current_database()) AS "limit"
           FROM pg_attribute WHERE attrelid = 'lines'::regclass AND attname = 'order_id'`,
      ),
    );
    expect(rows).toEqual([{ type: 'integer', limit: 50 }]);
    await cleaned(server, url);
  });
});
