import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { recordShapes } from '../../src/load/record-shapes.ts';
import type { LoadSection } from '../../src/model/report.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import { recordFigures } from '../bench/figures.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import {
  feltReally,
  pgbenchProgram,
  rehearsedUnderLoad,
  TRIAL_CLIENTS,
  TRIAL_RATE,
  underTraffic,
} from '../helpers/load-trials.ts';
import { useOwnServers } from '../helpers/servers.ts';

/*
 * What --load finds on a clone, against what the same migration does to a database under the same pgbench.
 * LOAD_REPEATS: runs of each order of locks; LOAD_KINDS: kinds of migrations by name; LOAD_ROWS: rows of the table in use, so many that
 * sessions wait longer than the 50 ms between two looks at them.
 */
const REPEATS = Number(process.env.LOAD_REPEATS ?? 10);
const ROWS = Number(process.env.LOAD_ROWS ?? 3_000_000);
const WANTED = new RegExp(process.env.LOAD_KINDS ?? '');

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

beforeAll(async () => {
  await useOwnServers(14, 18);
  folder = mkdtempSync(path.join(tmpdir(), 'safemigrate-load-soak-'));
  script = path.join(folder, 'traffic.sql');
  writeFileSync(script, SCRIPT);
});
afterAll(() => rmSync(folder, { recursive: true }));

async function loaded(url: string, sql: string, ...args: string[]): Promise<LoadSection> {
  const env = {
    SAFEMIGRATE_LOAD_WINDOW: '6s',
    SAFEMIGRATE_LOAD_RATE: args.includes(script) ? String(TRIAL_RATE) : '',
    SAFEMIGRATE_LOAD_CLIENTS: args.includes(script) ? String(TRIAL_CLIENTS) : '',
  };
  return (await rehearsedUnderLoad(url, sqlCommand(sql), args, env)).load;
}

async function newTarget(version: 14 | 18) {
  const target = await temporaryDatabase(version);
  await withClient(target.url, async (client) => {
    for (const each of SETUP.split(';')) await client.query(each);
  });
  return target;
}

describe.each([14, 18] as const)('on PostgreSQL %i', (version) => {
  test.each([
    ['against', 'hot', 'other', true],
    ['in', 'other', 'hot', false],
  ] as const)(
    'two tables that are locked %s the order of the traffic',
    async (_, first, second, isDeadlock) => {
      const target = await newTarget(version);
      let found = 0;
      for (let run = 0; run < REPEATS; run++) {
        const sql = `BEGIN; ALTER TABLE ${first} ADD COLUMN x int; SELECT pg_sleep(0.3); ALTER TABLE ${second} ADD COLUMN x int; COMMIT`;
        const load = await underTraffic(target.url, [script], () => loaded(target.url, sql, '--load'));
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

/** By a profile, so that the target's traffic does not take the machine's processors while the clone is measured. */
async function profileUnderTraffic(url: string): Promise<string> {
  const file = path.join(folder, 'profile.json');
  await underTraffic(url, [script], async () => {
    const { exitCode, stderr } = await safemigrate([
      'profile',
      '--url',
      url,
      '--out',
      file,
      '--window',
      '6s',
    ]);
    expect(exitCode, stderr).toBe(0);
  });
  return file;
}

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

const ratio = (one: number, other: number) => Math.round((Math.max(one, 1) / Math.max(other, 1)) * 100) / 100;
const median = (values: number[]) =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN;

test(
  'what sessions wait on the clone is what they wait on a database',
  async () => {
    const rows: Record<string, string | number>[] = [];
    const ratios: number[] = [];
    for (const [kind, sql] of Object.entries(KINDS).filter(([kind]) => WANTED.test(kind))) {
      const real = await newTarget(18);
      const truth = await feltReally(real.url, [script], [sql]);
      await real.drop();
      const target = await newTarget(18);
      const shapes = await loaded(
        target.url,
        sql,
        '--load',
        '--profile',
        await profileUnderTraffic(target.url),
      );
      const played = await loaded(target.url, sql, '--load', script);
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
    if (process.env.LOAD_KINDS) return;
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
  'what watching takes of the processors of a target that is never idle',
  async () => {
    const target = await newTarget(18);
    const words = ['-n', '-c', String(TRIAL_CLIENTS), '-j', '1', '-T', '600', '-f', script, target.url];
    const child = spawn(await pgbenchProgram(), words, { stdio: 'ignore' });
    const shares: number[] = [];
    let readings = 0;
    for (let turn = 0; turn < 5; turn++) {
      const session = await openSession(settingsOf(target.url), {
        purpose: 'record traffic',
        readOnly: true,
      });
      const [before, startedAt] = [processorMs(session.pid), performance.now()];
      ({ readings } = await recordShapes(session, 10_000, new AbortController().signal));
      const elapsedMs = performance.now() - startedAt;
      shares.push((processorMs(session.pid) - before) / (elapsedMs * availableParallelism()));
      await session.close();
    }
    child.kill('SIGKILL');
    await once(child, 'exit');
    await target.drop();
    const percent = Math.round(median(shares) * 10_000) / 100;
    recordFigures(
      'Share of the processors that the server spends on the session that records traffic, while pgbench never pauses',
      [{ 'windows of 10 s': shares.length, readings, 'median, %': percent }],
    );
    expect(percent).toBeLessThan(1);
  },
  10 * 60_000,
);

/** The throughput with and without it differs by more from run to run. */
function processorMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/schedstat`, 'utf8').split(' ')[0]) / 1e6;
}
