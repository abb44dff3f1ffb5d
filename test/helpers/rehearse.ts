import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import type { Report, StatementSection } from '../../src/model/report.ts';
import { type CliOptions, type CliResult, safemigrate } from './cli.ts';
import { readReport } from './read-report.ts';

const RUN_SCRIPT = fileURLToPath(new URL('commands/run-script.mjs', import.meta.url));

/** A migration command that runs this body of a function of `connect(database?, url?)`, `args` and `pg`. */
export function scriptCommand(body: string, ...args: string[]): string[] {
  return [process.execPath, RUN_SCRIPT, body, ...args];
}

/** psql -X with these arguments, at the place that DATABASE_URL names once it runs; stops at the first error. */
export function psqlCommand(...args: string[]): string[] {
  return ['sh', '-c', 'exec psql -X -q -v ON_ERROR_STOP=1 "$DATABASE_URL" "$@"', 'psql', ...args];
}

export interface Rehearsal extends CliResult {
  readonly report: Report;
}

/** A whole run of the built command line, and its report. @throws when there was none. */
export async function rehearse(
  url: string,
  command: readonly string[],
  { args = [], ...options }: CliOptions & { args?: readonly string[] } = {},
): Promise<Rehearsal> {
  const result = await safemigrate(['--format', 'json', ...args, '--', ...command], {
    ...options,
    env: { DATABASE_URL: url, ...options.env },
  });
  expect(result.stdout, result.stderr).toMatch(/^\{/);
  return { ...result, report: readReport(result.stdout) };
}

/** The same for a command that is kept in no sandbox, so that it reaches the target and has to be detected. */
export function rehearseWatched(...[url, command, options = {}]: Parameters<typeof rehearse>) {
  return rehearse(url, command, { ...options, args: ['--sandbox', 'off', ...(options.args ?? [])] });
}

/** A statement's locks on relations that are not the system's, as `MODE relation`. */
export function locksOf({ locks }: Pick<StatementSection, 'locks'>): string[] | null {
  return (
    locks
      ?.filter(({ relation }) => !relation.startsWith('pg_'))
      .map(({ mode, relation }) => `${mode} ${relation}`) ?? null
  );
}
