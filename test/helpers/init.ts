import { expect } from 'vitest';
import { type CliOptions, runLine, safemigrate } from './cli.ts';

/** Sets a project up with `safemigrate init`, and runs the lines that it shows: doctor, and a first rehearsal, which has to pass. */
export async function expectFirstRehearsal(
  folder: string,
  envOf: (line: string) => Promise<CliOptions['env']>,
): Promise<void> {
  const init = await safemigrate(['init'], { folder });
  expect(init.exitCode, init.stderr).toBe(0);
  expect(init.stdout).toContain('Wrote safemigrate.config.json');
  const lines = init.stdout.match(/(?<=^ {4})safemigrate .*$/gm) ?? [];
  expect(lines, init.stdout).toEqual([
    expect.stringMatching(/^safemigrate doctor/),
    expect.stringContaining(' -- '),
  ]);
  for (const line of lines) {
    const env = { SAFEMIGRATE_CLONE: 'template', ...(await envOf(lines.join())) };
    const { exitCode, stdout, stderr } = await runLine(line, { folder, env });
    expect(exitCode, `${line}\n${stdout}${stderr}`).toBe(0);
    if (line.includes(' -- ')) expect(stderr).toMatch(/PASSED/);
  }
}
