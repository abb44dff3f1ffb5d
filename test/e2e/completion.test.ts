import { execFileSync } from 'node:child_process';
import { accessSync, constants, writeFileSync } from 'node:fs';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { skipReason } from '../helpers/requirements.ts';

const obstacle = (program: string) => {
  try {
    accessSync(program, constants.X_OK);
    return null;
  } catch {
    return `${program} is not installed`;
  }
};
const noZsh = skipReason(obstacle('/usr/bin/zsh'));
const noFish = skipReason(obstacle('/usr/bin/fish'));

async function scriptFor(shell: string): Promise<string> {
  const { stdout, exitCode } = await safemigrate(['completion', shell]);
  expect(exitCode).toBe(0);
  const file = path.join(temporaryFolder(), `completion.${shell}`);
  writeFileSync(file, stdout);
  return file;
}

describe('completion', () => {
  test.each([
    ['the names of subcommands', ['roll'], 'rollback'],
    ['options of a run', ['swap', '--lim'], '--limit'],
    ['options of a subcommand', ['rollback', '--disc'], '--discard-writes'],
  ])('in bash knows %s', async (_, words, expected) => {
    const file = await scriptFor('bash');
    const script = `source "$1"; shift; COMP_WORDS=(safemigrate "$@"); COMP_CWORD=$#; _safemigrate; echo "\${COMPREPLY[@]}"`;
    expect(execFileSync('bash', ['-c', script, 'bash', file, ...words], { encoding: 'utf8' })).toBe(
      `${expected}\n`,
    );
  });

  test.skipIf(noZsh !== false)('for zsh is a script that zsh can read', async () => {
    execFileSync('zsh', ['-n', await scriptFor('zsh')]);
  });

  test.skipIf(noFish !== false)('in fish knows the options of a subcommand', async () => {
    const file = await scriptFor('fish');
    const script = `source ${file}; complete -C 'safemigrate rollback --disc'`;
    expect(execFileSync('fish', ['-c', script], { encoding: 'utf8' })).toMatch(/^--discard-writes\t/);
  });

  test('for another shell is refused with those that there are', async () => {
    const { exitCode, stderr } = await safemigrate(['completion', 'tcsh']);
    expect(exitCode).toBe(2);
    expect(stderr).toContain('bash | zsh | fish');
  });
});
