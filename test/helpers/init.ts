import { expect } from 'vitest';
import { safemigrate } from './cli.ts';

/** Sets a project up with `safemigrate init`. @returns the line of shell that init shows for the first rehearsal. */
export async function firstCommandOf(folder: string): Promise<string> {
  const { exitCode, stdout, stderr } = await safemigrate(['init'], { folder });
  expect(exitCode, stderr).toBe(0);
  expect(stdout).toContain('Wrote safemigrate.config.mjs');
  const [, line = ''] = /^ {4}(safemigrate .*?-- .*)$/m.exec(stdout) ?? [];
  expect(line, stdout).not.toBe('');
  return line;
}
