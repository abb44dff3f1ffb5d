import { existsSync, readdirSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { beforeAll, expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { feltReally, rehearsedUnderLoad, statementsIn, underTraffic } from '../helpers/load-trials.ts';
import { psqlCommand } from '../helpers/rehearse.ts';
import { useOwnServers } from '../helpers/servers.ts';

/*
 * Twenty migrations under pgbench, on a database and rehearsed by --load with shapes: those that deadlock or make sessions wait a second
 * are to be warned of, and no other. LOAD_SCHEDULES: names to run.
 */
const FOLDER = fileURLToPath(new URL('../../fixtures/load-schedules', import.meta.url));
const WANTED = new RegExp(process.env.LOAD_SCHEDULES ?? '');
const VERSION = 18;
const ROWS = 300_000;
/** From here on TRAFFIC_BLOCKED is a warning. */
const QUEUE_MS = 1000;
/** One reader of four seconds in so many transactions: some are always at work. */
const WEIGHT = 100;

const SETUP = [
  ...['other', 'middle', 'hot'].flatMap((table) => [
    `CREATE TABLE ${table} (id int PRIMARY KEY, v int NOT NULL DEFAULT 0, w int DEFAULT 1, ref int DEFAULT 1)`,
    `INSERT INTO ${table} SELECT generate_series(1, ${ROWS})`,
    `VACUUM ANALYZE ${table}`,
  ]),
];

beforeAll(() => useOwnServers(VERSION));

async function newTarget() {
  const target = await temporaryDatabase(VERSION);
  await withClient(target.url, async (client) => {
    for (const sql of SETUP) await client.query(sql);
  });
  return target;
}

function scriptsOf(folder: string): string[] {
  const reader = path.join(folder, 'reader.sql');
  const traffic = path.join(folder, 'traffic.sql');
  return existsSync(reader) ? [`${traffic}@${WEIGHT}`, `${reader}@1`] : [traffic];
}

async function tried(kind: 'bad' | 'good', name: string) {
  const folder = path.join(FOLDER, kind, name);
  const migration = path.join(folder, 'migration.sql');
  const scripts = scriptsOf(folder);
  const real = await newTarget();
  const felt = await feltReally(real.url, scripts, statementsIn(migration));
  await real.drop();
  const target = await newTarget();
  const { load, report } = await underTraffic(target.url, scripts, () =>
    rehearsedUnderLoad(target.url, psqlCommand('-f', migration), ['--load'], {
      SAFEMIGRATE_LOAD_WINDOW: '6s',
    }),
  );
  await target.drop();
  const codes = report.hazards.flatMap(({ code, severity }) => (severity === 'notice' ? [] : [code]));
  const row = {
    schedule: name,
    kind,
    'really: deadlocks': felt.deadlocks,
    'longest wait, ms': Math.round(felt.longestMs),
    'shapes: deadlocks': load.deadlocks.length,
    'longest wait, ms ': Math.round(load.longestWaitMs),
    warned: ['DEADLOCK', 'TRAFFIC_BLOCKED', 'TRAFFIC_FAILS', 'SLOW_RECOVERY']
      .filter((code) => codes.includes(code))
      .join(', '),
  };
  console.log(JSON.stringify(row));
  return { row, isBad: felt.deadlocks > 0 || felt.longestMs >= QUEUE_MS, warned: row.warned !== '' };
}

test(
  'schedules that deadlock or queue are warned of, and others are not',
  async () => {
    const results = [];
    for (const kind of ['bad', 'good'] as const)
      for (const name of readdirSync(path.join(FOLDER, kind)).filter((each) => WANTED.test(each)))
        results.push(await tried(kind, name));
    const bad = results.filter(({ isBad }) => isBad);
    const good = results.filter(({ isBad }) => !isBad);
    const found = bad.filter(({ warned }) => warned).length;
    const falseAlarms = good.filter(({ warned }) => warned).length;
    if (process.env.LOAD_SCHEDULES) return;
    recordFigures(
      'Schedules under pgbench, and what --load says of them by shapes',
      results.map(({ row }) => row),
      [
        `${found} of ${bad.length} that deadlocked or made a session wait a second were found; ${falseAlarms} false alarms in ${good.length} others`,
      ],
    );
    expect(found / Math.max(bad.length, 1)).toBeGreaterThanOrEqual(0.9);
    expect(falseAlarms / Math.max(good.length, 1)).toBeLessThanOrEqual(0.1);
  },
  60 * 60_000,
);
