import { formatEndings, formatOfFile } from '../../report/formats.ts';
import { APPLY_TABLE, GUARDRAIL_TABLE } from './apply-table.ts';
import type { OptionsFor, OptionValues } from './option-spec.ts';
import { POLICY_TABLE } from './policy-table.ts';
import { REHEARSAL_TABLE } from './rehearsal-table.ts';
import { SWAP_TABLE } from './swap-table.ts';
import { choiceOf, listOf, SWITCH, TEXT, type ValueType } from './value-types.ts';

/** What only the command line decides. */
export interface ProgramSettings {
  readonly apply: boolean;
  readonly swap: boolean;
  readonly yes: boolean;
  readonly plan: boolean;
  readonly verbose: boolean;
  readonly format: 'text' | 'json' | 'markdown';
  readonly report: readonly string[];
  readonly audit: string;
}

const REPORT_FILE: ValueType<string> = {
  parse: (text) => {
    if (formatOfFile(text) === undefined)
      throw new Error(`is "${text}", and must end in ${formatEndings().join(' or ')}.`);
    return text;
  },
  format: (file) => file,
};

export const PROGRAM_TABLE: OptionsFor<ProgramSettings> = {
  format: {
    flag: '--format <format>',
    summary: 'print the report on stdout: text, json, markdown',
    group: 'Report',
    type: choiceOf('text', 'json', 'markdown'),
    common: true,
  },
  report: {
    flag: '--report <file>',
    summary: `write the report, by its ending (${formatEndings().join(', ')}); repeatable`,
    group: 'Report',
    type: listOf(REPORT_FILE),
    common: true,
  },
  plan: {
    flag: '--plan',
    summary: 'print what would be sent to the target, and stop',
    group: 'Report',
    type: SWITCH,
    common: true,
  },
  verbose: {
    flag: '--verbose',
    summary:
      'print all of the report: evidence and advice of notices, more statements, why this clone was chosen',
    group: 'Report',
    type: SWITCH,
  },
  audit: {
    flag: '--audit <file>',
    summary: 'record every statement that safemigrate itself sends',
    group: 'Report',
    type: TEXT,
  },
  apply: {
    flag: '--apply',
    summary: 'run the command on the target, if the rehearsal passed',
    group: 'Change the target',
    type: SWITCH,
    common: true,
    notInFile: true,
  },
  swap: {
    flag: '--swap',
    summary: 'migrate a clone, and rename it to the target',
    group: 'Change the target',
    type: SWITCH,
    common: true,
    notInFile: true,
  },
  yes: {
    flag: '--yes',
    summary: 'do not ask before the target is changed',
    group: 'Change the target',
    type: SWITCH,
    modes: ['apply', 'swap'],
    notInFile: true,
  },
};

/** Everything that a run takes. */
export const RUN_OPTIONS = {
  ...PROGRAM_TABLE,
  ...REHEARSAL_TABLE,
  ...POLICY_TABLE,
  ...APPLY_TABLE,
  ...GUARDRAIL_TABLE,
  ...SWAP_TABLE,
};

export type RunValues = OptionValues<typeof RUN_OPTIONS>;
