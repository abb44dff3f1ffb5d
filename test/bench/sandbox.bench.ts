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
type How = (typeof HOW)[number];

interface Sample {
  readonly wholeMs: number;
  /** Without the making of the clone, whose time varies most. The sandbox is tried before it, and made after it. */
  readonly ownMs: number;
  readonly commandMs: number;
}

test('what the sandbox of the command costs', async () => {
  const database = await temporaryDatabase(18, { sql: 'CREATE TABLE t1 (id int)' });
  const samples: Record<How, Sample[]> = { off: [], auto: [] };
  for (let round = 0; round < ROUNDS; round++) {
    // Each of them comes first as often as the others.
    for (let turn = 0; turn < HOW.length; turn++) {
      const how = HOW[(round + turn) % HOW.length] ?? 'off';
      samples[how].push(await runOnce(database.url, how));
    }
  }
  await database.drop();
  const row = (what: string, of: (sample: Sample) => number) => {
    const [off, auto] = [samples.off.map(of), samples.auto.map(of)];
    // Of two runs after another, since the machine's own speed changes within a minute.
    const more = auto.map((ms, round) => ms - (off[round] ?? 0));
    return {
      what,
      'off, ms': Math.round(median(off)),
      'auto, ms': Math.round(median(auto)),
      'auto / off': median(auto.map((ms, round) => ms / (off[round] ?? 1))).toFixed(2),
      'auto - off, ms (median)': Math.round(median(more)),
    };
  };
  recordFigures(
    'what the wrapper itself takes with --sandbox',
    [
      row('the whole rehearsal', ({ wholeMs }) => wholeMs),
      row('without the making of the clone', ({ ownMs }) => ownMs),
      row('the command alone', ({ commandMs }) => commandMs),
    ],
    [`${ROUNDS} pairs of rehearsals of one ALTER TABLE; each with auto ran in the sandbox`],
  );
}, 600_000);

async function runOnce(url: string, how: How): Promise<Sample> {
  const file = path.join(tmpdir(), `safemigrate-bench-${process.pid}.json`);
  const args = ['--clone', 'template', '--limit', 'stall=1h', '--sandbox', how, '--report', file];
  const started = performance.now();
  const child = spawn(
    process.execPath,
    [CLI, ...args, '--', ...sqlCommand('ALTER TABLE t1 ADD COLUMN x integer')],
    {
      env: { ...plainEnvironment(), DATABASE_URL: url },
      stdio: 'ignore',
    },
  );
  const [code] = await once(child, 'exit');
  const wholeMs = performance.now() - started;
  if (code !== 0) throw new Error(`exit code ${code}`);
  const { clone, command } = reportModel.parse(JSON.parse(readFileSync(file, 'utf8')));
  rmSync(file);
  const expected = how === 'off' ? 'watched' : 'sandboxed';
  if (command.isolation.kind !== expected) throw new Error(`--sandbox ${how}: ${command.isolation.kind}`);
  return { wholeMs, ownMs: wholeMs - clone.durationMs, commandMs: command.durationMs };
}
