import { Command, CommanderError, Option } from 'commander';
import { SafemigrateError } from '../errors.ts';
import { toolVersion } from '../package.ts';
import { describeSetting, GROUPS, type SettingTree } from '../settings.ts';
import { DESCRIPTION, NOTES, USAGE } from './help-text.ts';
import { attributeOf, type Flag, flagsIn, formerFlagHint, sharing } from './options/flags.ts';
import { RUN_SETTINGS } from './options/run-table.ts';
import { type SubcommandName, subcommands } from './options/subcommand-table.ts';
import { strayWords } from './split-arguments.ts';

/** Columns for the names in a list below the options. */
const TERM_WIDTH = 28;

/** The words before `--`, parsed; the values of options are still text. */
export interface ParsedArguments {
  readonly action: 'rehearse' | SubcommandName;
  /** By the keys of a config file. */
  readonly values: Record<string, unknown>;
  /** The word after a subcommand's name: a run, a code, a file. */
  readonly subject?: string;
}

/**
 * Reads the words before `--`. Commander prints the help; everything wrong is thrown.
 * @returns `'shown'` after help was printed. @throws SafemigrateError `USAGE`
 */
export function readWords(own: readonly string[], hasCommand: boolean): ParsedArguments | 'shown' {
  const wantsAll = asksForAll(own);
  const words = wantsAll ? ['--help'] : [...own];
  let parsed: ParsedArguments | undefined;
  const program = runProgram(wantsAll, hasCommand).action((stray: string[]) => {
    if (stray.length > 0) throw strayWords(stray, hasCommand);
    parsed = { action: 'rehearse', values: program.opts() };
  });
  const possible = subcommands().filter(([, { takesCommand }]) => !hasCommand || takesCommand);
  for (const [action, { options, summary, argument, common = true }] of possible) {
    const hidden = !wantsAll && !common;
    const command = configure(program.command(action, { hidden })).description(summary);
    for (const each of flagsIn(options)) addOption(command, each);
    command.addHelpText('after', () => sharedFlagsText(options));
    if (argument !== undefined) command.argument(argument);
    command.allowExcessArguments(false).action(() => {
      const [subject] = command.args;
      const values = { ...shared(program.opts(), action, options), ...command.opts() };
      parsed = { action, values, ...(subject === undefined ? {} : { subject }) };
    });
  }
  try {
    program.parse(words, { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return 'shown';
    const unknown = /unknown option '(--[\w-]+)/.exec(error.message)?.[1] ?? '';
    throw new SafemigrateError('USAGE', asSentence(error.message), {
      hint: formerFlagHint(unknown, RUN_SETTINGS) ?? 'All options: safemigrate --help all',
    });
  }
  return parsed ?? 'shown';
}

/** `--help all` and `help all`. */
function asksForAll([first = '', second, ...more]: readonly string[]): boolean {
  return ['--help', '-h', 'help'].includes(first) && second === 'all' && more.length === 0;
}

/** The program itself, which rehearses. @param showsAll its help has every option, not only the common ones. */
function runProgram(showsAll: boolean, hasCommand: boolean): Command {
  const program = configure(new Command('safemigrate'))
    .usage(USAGE)
    .description(DESCRIPTION)
    // Without it, `clean --url …` would give the URL to the program, and the subcommand would work somewhere else.
    .enablePositionalOptions()
    .commandsGroup('Subcommands:')
    .helpCommand(!hasCommand)
    .passThroughOptions()
    .argument('[words...]')
    .addHelpText('after', NOTES);
  if (showsAll) program.addHelpText('after', () => sharedFlagsText(RUN_SETTINGS));
  for (const group of GROUPS) {
    for (const spec of flagsIn(RUN_SETTINGS).filter((each) => each.group === group)) {
      addOption(program, spec, { group: `${group}:`, hidden: !showsAll && !spec.common });
    }
  }
  return program.version(toolVersion(), '--version', 'print the version');
}

/** The names that the flags have which several settings share, in the columns of the help. */
function sharedFlagsText(tree: SettingTree): string {
  const help = new Command().createHelp();
  const section = (title: string, name: '--limit' | '--permit') => {
    const rows = sharing(tree, name).map(({ argument, setting }) =>
      help.formatItem(argument, TERM_WIDTH, describeSetting(setting), help),
    );
    return rows.length === 0 ? [] : [`\n${title}`, ...rows];
  };
  return [
    ...section('Limits, as --limit NAME=VALUE; in a config file maxNAME:', '--limit'),
    ...section('Permissions, as --permit WORD:', '--permit'),
  ].join('\n');
}

/** Options before the subcommand's name count as if they followed it; one that it does not have is a mistake. */
function shared(values: Record<string, unknown>, action: string, tree: SettingTree): Record<string, unknown> {
  const own = flagsIn(tree).map(({ name }) => name);
  const given = flagsIn(RUN_SETTINGS).filter(({ name }) => values[attributeOf(name)] !== undefined);
  const stray = given.find(({ name }) => !own.includes(name));
  if (stray === undefined) return values;
  throw new SafemigrateError('USAGE', `${stray.name} is no option of \`safemigrate ${action}\`.`, {
    hint: `All options: safemigrate ${action} --help`,
  });
}

/** Makes a sentence of commander's `error: unknown option '--pla'`, which may have a guess in a second line. */
function asSentence(message: string): string {
  const [text = '', guess] = message.replace(/^error: /, '').split('\n');
  const sentence = `${text.charAt(0).toUpperCase()}${text.slice(1)}`.replace(/\.?$/, '.');
  return guess === undefined ? sentence : `${sentence} ${guess}`;
}

function configure(command: Command): Command {
  return command
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .configureHelp({ subcommandTerm: termOf })
    .helpOption('-h, --help', 'show this help');
}

function termOf(command: Command): string {
  return [command.name(), ...command.registeredArguments.map((argument) => `[${argument.name()}]`)].join(' ');
}

function addOption(
  command: Command,
  { usage, summary, negation }: Flag,
  { group, hidden = false }: { group?: string; hidden?: boolean } = {},
): void {
  const option = new Option(usage, summary).hideHelp(hidden);
  // Commander gives a switch no value.
  option.argParser((value: string | undefined, previous: string[] | undefined) => [
    ...(previous ?? []),
    value ?? 'true',
  ]);
  const options = [option];
  if (negation) options.push(new Option(usage.replace('--', '--no-'), negation).hideHelp(hidden));
  for (const each of options) command.addOption(group === undefined ? each : each.helpGroup(group));
}
