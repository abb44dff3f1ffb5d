import { spawnSync } from 'node:child_process';
import { statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { test } from 'vitest';
import packageFacts from '../../package.json' with { type: 'json' };
import { CLI, plainEnvironment, runProgram, sqlCommand } from '../helpers/cli.ts';
import { temporaryDatabase } from '../helpers/database.ts';
import { median, recordFigures } from './figures.ts';
import { installed, must } from './installed.ts';

const ROUNDS = 11;
const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const NAME = `safemigrate-${packageFacts.version}-${process.platform}-${process.arch}`;

/** Times of the runs of one way, in milliseconds. */
interface Samples {
  readonly way: string;
  readonly version: number[];
  readonly help: number[];
  readonly rehearsal: number[];
}

const WAYS: Readonly<Record<string, readonly string[]>> = {
  'package from npm': [process.execPath, CLI],
  'single executable': [path.join(ROOT, 'release', NAME)],
};

test('the single executable beside the package from npm', async () => {
  must('npm', ['run', '--silent', 'package'], ROOT);
  const database = await temporaryDatabase(18, { sql: 'CREATE TABLE t1 (id int)' });
  const rehearsal = ['--clone', 'template', '--', ...sqlCommand('ALTER TABLE t1 ADD COLUMN x integer')];
  const env = { DATABASE_URL: database.url };
  const samples = Object.keys(WAYS).map((way): Samples => ({ way, version: [], help: [], rehearsal: [] }));
  for (let round = 0; round < ROUNDS; round++) {
    for (const { way, version, help, rehearsal: whole } of round % 2 === 0 ? samples : samples.toReversed()) {
      version.push(await timed(way, ['--version']));
      help.push(await timed(way, ['--help']));
      whole.push(await timed(way, rehearsal, env));
    }
  }
  const sizes: Readonly<Record<string, number>> = {
    'package from npm': installed(ROOT).bytes,
    'single executable': statSync(WAYS['single executable']?.[0] ?? '').size,
  };
  const rows = samples.map(({ way, version, help, rehearsal: whole }) => ({
    way,
    'MB on disk': Math.round((sizes[way] ?? 0) / 1e6),
    '--version, ms': Math.round(median(version)),
    '--help, ms': Math.round(median(help)),
    'a small rehearsal, ms': Math.round(median(whole)),
    'its memory at most, MB': Math.round(peakBytes(way, rehearsal, env) / 1e6),
  }));
  await database.drop();
  recordFigures('the single executable beside the package from npm', rows, [
    `Medians of ${ROUNDS} runs in turns. The package needs Node.js besides (${Math.round(statSync(process.execPath).size / 1e6)} MB); the executable has it inside.`,
  ]);
}, 1_200_000);

async function timed(way: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<number> {
  const started = performance.now();
  const { exitCode, stderr } = await runProgram([...(WAYS[way] ?? []), ...args], { env });
  if (exitCode !== 0) throw new Error(stderr);
  return performance.now() - started;
}

const PEAK = `import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)`;

/** Most memory that one process of a run had, as the kernel counts it. */
function peakBytes(way: string, args: readonly string[], env: NodeJS.ProcessEnv): number {
  const child = spawnSync('python3', ['-c', PEAK, ...(WAYS[way] ?? []), ...args], {
    env: { ...plainEnvironment(), ...env },
    encoding: 'utf8',
  });
  if (child.status !== 0) throw new Error(child.stderr);
  return Number(child.stdout);
}
