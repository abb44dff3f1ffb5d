import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { exitCodeOfError } from '../../src/cli/exit-codes.ts';
import { RUN_SETTINGS } from '../../src/cli/options/run-table.ts';
import type { ErrorCode } from '../../src/errors.ts';
import { configKeyOf, flagName, GROUPS, settingsIn, variableOf } from '../../src/settings.ts';

export const CONFIGURATION_PAGE = 'docs/configuration.md';
export const CONFIGURATION_BLOCK = 'keys';
export const ERRORS_PAGE = 'docs/exit-codes-and-errors.md';
export const ERRORS_BLOCK = 'errors';

/** The key and the variable of each option of a run, as Markdown. */
export function configurationTable(): string {
  const rows = GROUPS.flatMap((group) =>
    settingsIn(RUN_SETTINGS)
      .filter((spec) => spec.group === group)
      .map((spec) => {
        const { notInFile = false } = spec;
        const never = notInFile === true ? '–' : `\`${configKeyOf(spec)}\``;
        const key = Array.isArray(notInFile)
          ? `${never}, but not ${notInFile.map((each) => `\`${each}\``).join(', ')}`
          : never;
        return `| \`${flagName(spec)}\` | ${key} | \`${variableOf(spec)}\` |`;
      }),
  );
  return ['| option | key in a file | variable |', '|---|---|---|', ...rows].join('\n');
}

/** The failures that end a run without a report, with their exit codes, from the comments of the closed set. */
export function errorTable(): string {
  const source = readFileSync(fileURLToPath(new URL('../../src/errors.ts', import.meta.url)), 'utf8');
  const [set = ''] = source.split(/;\n\nexport interface/);
  const rows = [...set.matchAll(/\/\*\* (.*) \*\/\n {2}\| '(\w+)'/g)].map(
    ([, meaning, code]) => `| \`${code}\` | ${meaning} | ${exitCodeOfError(code as ErrorCode, undefined)} |`,
  );
  return ['| code | meaning | exit code |', '|---|---|---|', ...rows].join('\n');
}
