import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { test } from 'vitest';
import { report as reportModel } from '../../src/model/report.ts';
import { CLI, plainEnvironment, sqlCommand } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { median, recordFigures } from './figures.ts';

const ROUNDS = 15;
const HOW = ['off', 'auto'] as const;

test('what the sandbox of the command costs', async () => {
  const database = await temporaryDatabase(18, { sql: 'CREATE TABLE t1 (id int)' });
  const samples: { how: string; ownMs: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    // Each of them comes first as often as the others.
    for (let turn = 0; turn < HOW.length; turn++) {
      const how = HOW[(round + turn) % HOW.length] ?? 'off';
      samples.push({ how, ownMs: await ownTime(database.url, how) });
    }
  }
  await database.drop();
  const timesOf = (how: string) => samples.filter((each) => each.how === how).map(({ ownMs }) => ownMs);
  const [off, auto] = [timesOf('off'), timesOf('auto')];
  // Of two runs after another, since the machine's own speed changes within a minute.
  const more = auto.map((ms, round) => ms - (off[round] ?? 0));
  recordFigures('what the wrapper itself takes with --sandbox', [
    {
      rounds: ROUNDS,
      'off, ms': Math.round(median(off)),
      'auto, ms': Math.round(median(auto)),
      'auto / off': median(auto.map((ms, round) => ms / (off[round] ?? 1))).toFixed(2),
      'auto - off, ms (median)': Math.round(median(more)),
    },
  ]);
}, 600_000);

/** A whole run without the making of the clone, in ms. */
async function ownTime(url: string, how: string): Promise<number> {
  const file = path.join(tmpdir(), `safemigrate-bench-${process.pid}.json`);
  const args = ['--clone', 'template', '--max-stall', '1h', '--sandbox', how, '--report', file];
  const command = sqlCommand('ALTER TABLE t1 ADD COLUMN x integer');
  const started = performance.now();
  const child = spawn(process.execPath, [CLI, ...args, '--', ...command], {
    env: { ...plainEnvironment(), DATABASE_URL: url },
    stdio: 'ignore',
  });
  const [code] = await once(child, 'exit');
  const wholeMs = performance.now() - started;
  if (code !== 0) throw new Error(`exit code ${code}`);
  const { clone } = reportModel.parse(JSON.parse(readFileSync(file, 'utf8')));
  rmSync(file);
  return wholeMs - clone.durationMs;
}
