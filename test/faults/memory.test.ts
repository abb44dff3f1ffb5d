import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, mkdir, readFile, rmdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { IS_EXECUTABLE, PROGRAM, plainEnvironment, safemigrate } from '../helpers/cli.ts';
import { isRunning, until } from '../helpers/cutting.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';
import { serverUrl, useOwnServers } from '../helpers/servers.ts';

const MB = 2 ** 20;
const ROOT = '/sys/fs/cgroup';
/** Where groups with a limit are made: beside those of the other controllers (v1), or in the one tree (v2). */
const V1 = `${ROOT}/memory`;
const isV1 = await access(`${V1}/memory.limit_in_bytes`).then(
  () => true,
  () => false,
);

async function obstacle(): Promise<string | null> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0)
    return 'cgroups with a limit need Linux and root';
  if (isV1) return null;
  const enabled = await readFile(`${ROOT}/cgroup.subtree_control`, 'utf8').catch(() => '');
  return enabled.includes('memory') ? null : 'this machine limits no memory by cgroups';
}

/** Takes memory until it is ended, 16 MB at a time. */
const HOG = [process.execPath, '-e', 'const all = []; for (;;) all.push(Buffer.alloc(16 << 20, 1));'];

describe.skipIf(skipReason(await obstacle()))('a cgroup whose memory runs out', () => {
  const group = path.join(isV1 ? V1 : ROOT, `safemigrate-test-${process.pid}`);
  let url: string;

  beforeAll(async () => {
    await useOwnServers(18);
    ({ url } = await temporaryDatabase(18));
    await mkdir(group);
    await writeFile(path.join(group, isV1 ? 'memory.limit_in_bytes' : 'memory.max'), String(400 * MB));
    if (!isV1) await writeFile(path.join(group, 'memory.swap.max'), '0').catch(() => {});
  });
  afterAll(() =>
    until('the group is empty', () =>
      rmdir(group).then(
        () => true,
        () => false,
      ),
    ),
  );

  /** The words of a program that runs in the group. */
  const limited = (...words: readonly string[]) => [
    'sh',
    '-c',
    `echo $$ > '${path.join(group, 'cgroup.procs')}'; "$@"`,
    'sh',
    ...words,
  ];

  test.each([
    ['itself', ['exec'], { exitCode: null, signal: 'SIGKILL' }, 'was terminated by SIGKILL'],
    ['a program of its', [], { exitCode: 137, signal: null }, 'failed with exit code 137'],
  ])(
    'a command that is killed for that, %s: exit code 1, and the reason is named',
    async (_who, exec, command, words) => {
      const run = await rehearse(url, limited(...(exec.length > 0 ? ['exec'] : []), ...HOG), {
        args: ['--sandbox', 'off'],
      });
      expect(run.exitCode).toBe(1);
      expect(run.report.command).toMatchObject(command);
      expect(run.report.command.endedForMemory).toBeGreaterThan(0);
      const reason = run.report.verdict.reasons.join();
      expect(reason).toContain(`the command ${words}`);
      expect(reason).toMatch(/memory ran out; meanwhile the kernel ended \d+ process(es)? of this machine/);
      expect(run.report.target.unchanged).toBe(true);
    },
  );

  test('a tool that is killed for that leaves what clean finds', async () => {
    const waiting = ['sh', '-c', 'psql -c "SELECT pg_sleep(60)" "$DATABASE_URL"'];
    const score = 'echo 1000 > /proc/self/oom_score_adj';
    const tool = spawn(
      'sh',
      ['-c', `${score}; ${limited().at(2)}`, 'sh', 'exec', ...PROGRAM, '--', ...waiting],
      {
        env: { ...plainEnvironment(), SAFEMIGRATE_CLONE: 'template', DATABASE_URL: url },
        stdio: 'ignore',
      },
    );
    const ended = once(tool, 'exit');
    await withClient(serverUrl(18), (client) =>
      until('the command runs', () => isRunning(client, 'pg_sleep(60)')),
    );
    const [hog = '', ...words] = limited('exec', ...HOG);
    await once(spawn(hog, words, { stdio: 'ignore' }), 'exit');
    expect(await ended).toEqual([null, 'SIGKILL']);
    const list = await safemigrate(['list'], { env: { DATABASE_URL: url } });
    expect(list.stdout).toContain('clone of a dead run');
    const cleaned = await safemigrate(['clean'], { env: { DATABASE_URL: url } });
    expect(cleaned).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^dropped \S+_rehearsal_\w+$/m),
    });
  });

  test('a heap of V8 that is too small ends the tool before it has made anything', async () => {
    const { exitCode, signal } = await safemigrate(['--', 'sh', '-c', 'psql -c "SELECT 1" "$DATABASE_URL"'], {
      env: { DATABASE_URL: url, NODE_OPTIONS: '--max-old-space-size=8' },
    });
    // Node's variables are for the command, not for the single executable.
    const expected = IS_EXECUTABLE ? { exitCode: 0, signal: null } : { exitCode: null, signal: 'SIGABRT' };
    expect({ exitCode, signal }).toEqual(expected);
    await safemigrate(['clean'], { env: { DATABASE_URL: url } });
  });
});
