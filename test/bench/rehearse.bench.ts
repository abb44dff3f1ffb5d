import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, test } from 'vitest';
import { report as reportModel } from '../../src/model/report.ts';
import { CLI, plainEnvironment, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { median, recordRatios } from './figures.ts';

/** What safemigrate adds to a run: the whole run without the making of the clone and without the command. */
const ROUNDS = 5;

interface Sample {
  readonly whole: number;
  readonly clone: number;
  readonly command: number;
  readonly residentMb: number;
}

describe('the wrapper itself', () => {
  test.each([
    ['a small schema', 20, ROUNDS],
    ['10,000 tables', 10_000, 2],
  ])(
    'on %s',
    async (title, tables, rounds) => {
      const database = await temporaryDatabase(18);
      await withClient(database.url, async (client) => {
        for (let first = 0; first < tables; first += 500) {
          const count = Math.min(500, tables - first);
          const sql = Array.from(
            { length: count },
            (_, n) => `CREATE TABLE t${first + n} (id bigint PRIMARY KEY, v text)`,
          );
          await client.query(sql.join(';'));
        }
      });
      const samples: Sample[] = [];
      for (let round = 0; round < rounds; round++) samples.push(await rehearseOnce(database.url));
      await database.drop();
      const of = (read: (sample: Sample) => number) => median(samples.map(read));
      const [whole, clone, command] = [of((s) => s.whole), of((s) => s.clone), of((s) => s.command)];
      recordRatios(
        `a rehearsal on ${title}`,
        { 'the wrapper': whole - clone - command, 'the clone': clone, 'the command': command },
        'the wrapper',
        [`At most ${of((s) => s.residentMb).toFixed(0)} MB resident.`],
      );
    },
    600_000,
  );

  test('starting', async () => {
    const times = async (args: string[]) => {
      const samples: number[] = [];
      for (let round = 0; round < 10; round++) samples.push((await run(args)).milliseconds);
      return median(samples);
    };
    recordRatios(
      'starting',
      {
        'bare node': await times(['-e', '']),
        '--version': await times([CLI, '--version']),
        '--help': await times([CLI, '--help']),
      },
      '--help',
    );
  });
});

async function rehearseOnce(url: string): Promise<Sample> {
  const file = path.join(tmpdir(), `safemigrate-bench-${process.pid}.json`);
  const args = [
    CLI,
    '--max-stall',
    '1h',
    '--report',
    file,
    '--',
    ...sqlCommand('ALTER TABLE t1 ADD COLUMN x integer'),
  ];
  const { milliseconds, residentMb } = await run(args, { DATABASE_URL: url });
  const { clone, command } = reportModel.parse(JSON.parse(readFileSync(file, 'utf8')));
  rmSync(file);
  return { whole: milliseconds, clone: clone.durationMs, command: command.durationMs, residentMb };
}

async function run(
  args: string[],
  env: NodeJS.ProcessEnv = {},
): Promise<{ milliseconds: number; residentMb: number }> {
  const started = performance.now();
  const child = spawn(process.execPath, args, {
    env: { ...plainEnvironment(), SAFEMIGRATE_CLONE: 'template', ...env },
    stdio: 'ignore',
  });
  let residentMb = 0;
  const sampler = setInterval(() => {
    residentMb = Math.max(residentMb, residentOf(child.pid ?? 0));
  }, 20);
  const [code] = await once(child, 'exit');
  clearInterval(sampler);
  if (code !== 0) throw new Error(`exit code ${code}`);
  return { milliseconds: performance.now() - started, residentMb };
}

/** VmHWM is the most that the process ever had; 0 where there is no /proc. */
function residentOf(pid: number): number {
  try {
    return Number(/^VmHWM:\s*(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}
