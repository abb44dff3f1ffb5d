import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from 'pg';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { recordShapes } from '../../src/load/record-shapes.ts';
import { WaitMonitor } from '../../src/load/wait-monitor.ts';
import { newestClientPrograms } from '../../src/local-server/client-programs.ts';
import type { LoadSection } from '../../src/model/report.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import { recordFigures } from '../bench/figures.ts';
import { sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

/*
 * What --load finds on a clone, against what the same migration does to a database under the same pgbench.
 * LOAD_REPEATS: runs of each order of locks; LOAD_ROWS: rows of the table in use; LOAD_KINDS: kinds of migrations by name.
 */
const REPEATS = Number(process.env.LOAD_REPEATS ?? 10);
const ROWS = Number(process.env.LOAD_ROWS ?? 300_000);
const WANTED = new RegExp(process.env.LOAD_KINDS ?? '');
const CLIENTS = 6;
const RATE = 150;

const SETUP = `
CREATE TABLE other (id int PRIMARY KEY, v int NOT NULL DEFAULT 0);
INSERT INTO other SELECT generate_series(1, ${ROWS});
CREATE TABLE hot (id int PRIMARY KEY, v int NOT NULL DEFAULT 0, w int DEFAULT 1, u int, ref int DEFAULT 1);
INSERT INTO hot (id, u) SELECT i, i FROM generate_series(1, ${ROWS}) i;
VACUUM ANALYZE hot; VACUUM ANALYZE other`;
/** The application takes `other` before `hot`. */
const SCRIPT = `\\set i random(1, ${ROWS})
\\set j random(1, ${ROWS})
BEGIN;
UPDATE other SET v = v + 1 WHERE id = :i;
UPDATE hot SET v = v + 1 WHERE id = :j;
COMMIT;
`;

const settingsOf = (url: string) => parseSettings(url, readEnvironment({}, '/'));

let folder: string;
let script: string;
let pgbench: string;

beforeAll(async () => {
  await useOwnServers(14, 18);
  folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-load-soak-'));
  script = path.join(folder, 'traffic.sql');
  writeFileSync(script, SCRIPT);
  const found = await newestClientPrograms(['pgbench']);
  if (!found) throw new Error('pgbench is not installed');
  pgbench = path.join(found.folder, 'pgbench');
});
afterAll(() => rmSync(folder, { recursive: true }));

/** pgbench works on the database while the function runs. */
async function underTraffic<T>(url: string, work: () => Promise<T>): Promise<T> {
  const words = [
    '-n',
    '-c',
    String(CLIENTS),
    '-j',
    '1',
    '-R',
    String(RATE),
    '-T',
    '600',
    '-f',
    script,
    '--max-tries=1',
    url,
  ];
  const child = spawn(pgbench, words, { stdio: 'ignore' });
  const ended = once(child, 'exit');
  try {
    await delay(1000);
    return await work();
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
}

async function loaded(url: string, sql: string, ...args: string[]): Promise<LoadSection> {
  const { report } = await rehearse(url, sqlCommand(sql), { env: { SAFEMIGRATE_CLONE: 'cluster' }, args });
  if (!report.load) throw new Error(report.verdict.reasons.join('\n'));
  return report.load;
}

describe.each([14, 18] as const)('on PostgreSQL %i', (version) => {
  test.each([
    ['against', 'hot', 'other', true],
    ['in', 'other', 'hot', false],
  ] as const)(
    'two tables that are locked %s the order of the traffic',
    async (_, first, second, isDeadlock) => {
      const target = await temporaryDatabase(version);
      await withClient(target.url, async (client) => {
        for (const sql of SETUP.split(';')) await client.query(sql);
      });
      let found = 0;
      for (let run = 0; run < REPEATS; run++) {
        const sql = `BEGIN; ALTER TABLE ${first} ADD COLUMN x int; SELECT pg_sleep(0.3); ALTER TABLE ${second} ADD COLUMN x int; COMMIT`;
        const load = await underTraffic(target.url, () =>
          loaded(target.url, sql, '--load', '--load-window', '6s'),
        );
        if (load.deadlocks.length > 0) found++;
      }
      recordFigures(
        `--load with two tables ${isDeadlock ? 'against' : 'in'} the order of the traffic, PostgreSQL ${version}`,
        [{ runs: REPEATS, 'with a deadlock': found }],
      );
      if (isDeadlock) expect(found).toBeGreaterThanOrEqual(Math.floor(REPEATS * 0.9));
      else expect(found).toBe(0);
    },
    60 * 60_000,
  );
});

const KINDS: Readonly<Record<string, string>> = {
  rewrite: 'ALTER TABLE hot ALTER COLUMN w TYPE bigint',
  'index build': 'CREATE INDEX ON hot (w)',
  'foreign key': 'ALTER TABLE hot ADD FOREIGN KEY (ref) REFERENCES other',
  'SET NOT NULL': 'ALTER TABLE hot ALTER COLUMN w SET NOT NULL',
  'long transaction': 'BEGIN; ALTER TABLE hot ADD COLUMN x int; SELECT pg_sleep(1.5); COMMIT',
  'UPDATE of all rows': 'UPDATE hot SET w = w + 1',
  'backfill with DDL': 'BEGIN; ALTER TABLE hot ADD COLUMN y int; UPDATE hot SET y = 1; COMMIT',
  UNIQUE: 'ALTER TABLE hot ADD UNIQUE (u)',
  CHECK: `ALTER TABLE hot ADD CHECK (md5(repeat(v::text, 300)) ~ '^[0-9a-f]{32}$')`,
};

interface Felt {
  readonly blockedMs: number;
  readonly longestMs: number;
}

/** The migration on a database under pgbench, as it would be without any tool. */
async function really(version: 14 | 18, sql: string): Promise<Felt> {
  const target = await temporaryDatabase(version);
  await withClient(target.url, async (client) => {
    for (const each of SETUP.split(';')) await client.query(each);
  });
  const session = await openSession(settingsOf(target.url), { purpose: 'monitor' });
  const monitor = new WaitMonitor(session, performance.now());
  const client = new Client({ connectionString: target.url });
  await client.connect();
  const { rows } = await client.query('SELECT pg_backend_pid() AS pid');
  monitor.observe({
    ...{
      type: 'session',
      session: 1,
      pid: rows[0].pid,
      user: '',
      database: '',
      application: '',
      parameters: [],
    },
  });
  try {
    await underTraffic(target.url, async () => {
      await delay(2000);
      await client.query(sql);
      await delay(2000);
    });
  } finally {
    await client.end();
    await monitor.stop();
    await session.close();
  }
  const blockedMs = [...monitor.blocked.values()].reduce((sum, each) => sum + each.blockedMs, 0);
  await target.drop();
  return { blockedMs, longestMs: monitor.longestMs };
}

const ratio = (one: number, other: number) => Math.round((Math.max(one, 1) / Math.max(other, 1)) * 100) / 100;
const median = (values: number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

test(
  'what sessions wait on the clone is what they wait on a database',
  async () => {
    const rows: Record<string, string | number>[] = [];
    const ratios: number[] = [];
    for (const [kind, sql] of Object.entries(KINDS).filter(([kind]) => WANTED.test(kind))) {
      const truth = await really(18, sql);
      const target = await temporaryDatabase(18);
      await withClient(target.url, async (client) => {
        for (const each of SETUP.split(';')) await client.query(each);
      });
      const shapes = await underTraffic(target.url, () =>
        loaded(target.url, sql, '--load', '--load-window', '6s'),
      );
      const played = await loaded(
        target.url,
        sql,
        '--load',
        script,
        '--load-rate',
        String(RATE),
        '--load-clients',
        String(CLIENTS),
      );
      await target.drop();
      const of = (load: LoadSection) => [
        ratio(load.blockedMs, truth.blockedMs),
        ratio(load.longestWaitMs, truth.longestMs),
      ];
      ratios.push(...of(shapes), ...of(played));
      const [blocked, longest] = of(shapes);
      const [blockedByScripts, longestByScripts] = of(played);
      rows.push({
        kind,
        'blocked really, ms': Math.round(truth.blockedMs),
        'longest really, ms': Math.round(truth.longestMs),
        'shapes: blocked ×': blocked ?? '',
        'longest ×': longest ?? '',
        'pgbench: blocked ×': blockedByScripts ?? '',
        'longest × ': longestByScripts ?? '',
      });
      console.log(rows.at(-1));
    }
    recordFigures(
      'Waiting on the clone under load, as a multiple of that on a database under the same pgbench',
      rows,
    );
    expect(median(ratios)).toBeGreaterThan(0.7);
    expect(median(ratios)).toBeLessThan(1.4);
  },
  60 * 60_000,
);

test(
  'watching the target takes less than a hundredth of its throughput',
  async () => {
    const target = await temporaryDatabase(18);
    await withClient(target.url, async (client) => {
      for (const each of SETUP.split(';')) await client.query(each);
    });
    const words = ['-n', '-c', String(CLIENTS), '-j', '1', '-T', '12', '-f', script, target.url];
    const throughput = async (watched: boolean) => {
      const child = spawn(pgbench, words, { stdio: ['ignore', 'pipe', 'ignore'] });
      let text = '';
      child.stdout.on('data', (data) => (text += data));
      const ended = once(child, 'exit');
      if (watched) {
        const session = await openSession(settingsOf(target.url), {
          purpose: 'record traffic',
          readOnly: true,
        });
        await recordShapes(session, 10_000, new AbortController().signal);
        await session.close();
      }
      await ended;
      return Number(/tps = ([\d.]+)/.exec(text)?.[1]);
    };
    const pairs: number[] = [];
    for (let turn = 0; turn < 5; turn++) pairs.push((await throughput(true)) / (await throughput(false)));
    recordFigures(
      'Throughput of pgbench without a pause while its transactions are watched, as a share of that without',
      [{ turns: pairs.length, median: Math.round(median(pairs) * 1000) / 1000 }],
    );
  },
  60 * 60_000,
);
