import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { describe, test } from 'vitest';
import { z } from 'zod';
import { CLI, plainEnvironment, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { median, recordFigures, recordRatios } from './figures.ts';

/** What safemigrate adds to a run: the whole run without the making of the clone and without the command. */
const ROUNDS = 5;

interface Sample {
  readonly whole: number;
  readonly clone: number;
  readonly command: number;
  readonly residentMb: number;
}

/** Another checkout, built, to be timed in turns with this one. */
const { BENCH_AGAINST } = process.env;

const SCHEMAS = [
  ['a small schema', 20, ROUNDS],
  ['10,000 tables', 10_000, 2],
] as const;

const PHASES = fileURLToPath(new URL('rehearse-phases.mjs', import.meta.url));

/** What one phase took, by the name of each number. */
const Taken = z.array(z.object({ phase: z.string() }).catchall(z.number()));

describe('the phases of a rehearsal', () => {
  test.each([
    [20, 'template'],
    [20, 'cluster'],
    [2_000, 'template'],
    [2_000, 'cluster'],
  ] as const)(
    'on %i tables, by %s',
    async (tables, method) => {
      const database = await databaseOf(tables);
      const runs: z.infer<typeof Taken>[] = [];
      for (let round = 0; round < ROUNDS; round++) runs.push(await phasesOf(database.url, method));
      await database.drop();
      const rows = (runs[0] ?? []).map(({ phase, ...taken }) => {
        const of = (name: string) =>
          median(runs.map((run) => Number(run.find((each) => each.phase === phase)?.[name] ?? 0)));
        return {
          phase,
          ...Object.fromEntries(Object.keys(taken).map((name) => [name, Math.round(of(name))])),
        };
      });
      recordFigures(`the phases of a rehearsal on ${tables} tables by ${method}`, rows);
    },
    600_000,
  );
});

async function phasesOf(url: string, method: string): Promise<z.infer<typeof Taken>> {
  return withClient(url, async (client) => {
    const { rows } = await client.query<{ pid: number }>('SELECT pg_backend_pid() AS pid');
    const command = sqlCommand('ALTER TABLE t1 ADD COLUMN x integer');
    const words = [PHASES, path.dirname(path.dirname(CLI)), url, method, String(rows[0]?.pid), ...command];
    const { stdout } = await promisify(execFile)(process.execPath, words, { env: plainEnvironment() });
    return Taken.parse(JSON.parse(stdout));
  });
}

describe('the wrapper itself', () => {
  test.each(SCHEMAS)(
    'on %s',
    async (title, tables, rounds) => {
      const database = await databaseOf(tables);
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

  test.runIf(BENCH_AGAINST).each(SCHEMAS)(
    'on %s, in turns with another build',
    async (title, tables, rounds) => {
      const database = await databaseOf(tables);
      const builds = { before: path.join(BENCH_AGAINST ?? '', 'dist/cli/main.js'), now: CLI };
      const samples: Record<keyof typeof builds, Sample[]> = { before: [], now: [] };
      for (let round = 0; round < 2 * rounds; round++)
        for (const build of round % 2 === 0 ? (['before', 'now'] as const) : (['now', 'before'] as const))
          samples[build].push(await rehearseOnce(database.url, builds[build]));
      await database.drop();
      recordFigures(
        `the wrapper on ${title}, before and now, in turns`,
        (['before', 'now'] as const).map((build) => ({
          build,
          'ms without clone and command': Math.round(
            median(samples[build].map(({ whole, clone, command }) => whole - clone - command)),
          ),
          'MB resident': Math.round(median(samples[build].map(({ residentMb }) => residentMb))),
        })),
      );
    },
    1_200_000,
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

async function databaseOf(tables: number) {
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
  return database;
}

/** What reports of all versions have. */
const TIMES = z.object({
  clone: z.object({ durationMs: z.number() }),
  command: z.object({ durationMs: z.number() }),
});

async function rehearseOnce(url: string, cli = CLI): Promise<Sample> {
  const file = path.join(tmpdir(), `safemigrate-bench-${process.pid}.json`);
  const args = [
    cli,
    '--limit stall',
    '1h',
    '--report',
    file,
    '--',
    ...sqlCommand('ALTER TABLE t1 ADD COLUMN x integer'),
  ];
  const { milliseconds, residentMb } = await run(args, { DATABASE_URL: url });
  const { clone, command } = TIMES.parse(JSON.parse(readFileSync(file, 'utf8')));
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
