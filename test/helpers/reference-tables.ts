import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { exitCodeOfError } from '../../src/cli/exit-codes.ts';
import { RUN_SETTINGS } from '../../src/cli/options/run-table.ts';
import type { ErrorCode } from '../../src/errors.ts';
import { describeSetting, GROUPS, nameOfSetting, settingsIn, variableOf } from '../../src/settings.ts';

export const CONFIGURATION_PAGE = 'docs/configuration.md';
export const CONFIGURATION_BLOCK = 'keys';
export const ERRORS_PAGE = 'docs/exit-codes-and-errors.md';
export const ERRORS_BLOCK = 'errors';

/** The key and the variable of each setting of a run, with its flag, or its meaning if it has none, as Markdown. */
export function configurationTable(): string {
  const rows = GROUPS.flatMap((group) =>
    settingsIn(RUN_SETTINGS)
      .filter((setting) => setting.group === group)
      .map((setting) => {
        const { notInFile = false } = setting;
        const never = notInFile === true ? '–' : `\`${setting.key}\``;
        const key = Array.isArray(notInFile)
          ? `${never}, but not ${notInFile.map((each) => `\`${each}\``).join(', ')}`
          : never;
        const flag = setting.flag === null ? describeSetting(setting) : `\`${nameOfSetting(setting)}\``;
        return `| ${flag} | ${key} | \`${variableOf(setting)}\` |`;
      }),
  );
  return ['| flag, or meaning | key in a file | variable |', '|---|---|---|', ...rows].join('\n');
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
