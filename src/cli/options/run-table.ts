import { APPLY_SETTINGS } from '../../apply/apply-settings.ts';
import { REHEARSAL_SETTINGS } from '../../rehearsal/rehearsal-settings.ts';
import { formatEndings, formatOfFile } from '../../report/formats.ts';
import { flag, grouped, inMode, type OptionsOf } from '../../settings.ts';
import { SWAP_SETTINGS } from '../../swap/swap-settings.ts';
import { choiceOf, listOf, SWITCH, TEXT, type ValueType } from '../../value-types.ts';

const REPORT_FILE: ValueType<string> = {
  parse: (text) => {
    if (formatOfFile(text) === undefined)
      throw new Error(`is "${text}", and must end in ${formatEndings().join(' or ')}.`);
    return text;
  },
  format: (file) => file,
};

/** Settings that only the command line has. */
export const PROGRAM_SETTINGS = {
  ...grouped(
    { group: 'Report' },
    {
      format: flag('--format <format>', choiceOf('text', 'json', 'markdown', 'summary'), {
        summary: 'print the report on stdout: text, json, markdown, summary (2 kB)',
        common: true,
      }),
      report: flag('--report <file>', listOf(REPORT_FILE), {
        summary: `write the report, by its ending (${formatEndings().join(', ')}); repeatable`,
        common: true,
      }),
      plan: flag('--plan', SWITCH, {
        summary: 'print what would be sent to the target, and stop',
        common: true,
      }),
      verbose: flag('--verbose', SWITCH, {
        summary:
          'print all of the report: evidence and advice of notices, more statements, why this clone was chosen',
      }),
      audit: flag('--audit <file>', TEXT, {
        summary: 'record every statement that safemigrate itself sends',
      }),
    },
  ),
  ...grouped(
    { group: 'Change the target', notInFile: true },
    {
      yes: flag('--yes', SWITCH, {
        summary: 'do not ask before the target is changed',
        modes: ['apply', 'swap'],
      }),
    },
  ),
};

/** Everything that runs take, in all modes. */
export const RUN_SETTINGS = {
  ...PROGRAM_SETTINGS,
  ...REHEARSAL_SETTINGS,
  ...APPLY_SETTINGS,
  ...SWAP_SETTINGS,
};

/** Everything that a run takes in each mode. */
export const MODE_SETTINGS = {
  rehearse: inMode(RUN_SETTINGS, 'rehearse'),
  apply: inMode(RUN_SETTINGS, 'apply'),
  swap: inMode(RUN_SETTINGS, 'swap'),
};

export type RunValues = OptionsOf<typeof RUN_SETTINGS>;
