import { Command, CommanderError, Option } from 'commander';
import { SafemigrateError } from '../errors.ts';
import { toolVersion } from '../package.ts';
import { describeSetting, GROUPS, type Group, type RunMode, type SettingTree } from '../settings.ts';
import { attributeOf, type Flag, flagsIn, sharing, unknownFlagHint } from './options/flags.ts';
import { MODE_SETTINGS } from './options/run-table.ts';
import { type SubcommandName, subcommands } from './options/subcommand-table.ts';
import { strayWords } from './split-arguments.ts';

// The parts of `--help` that the table of options does not give, in lines of 78 columns.

const COMMAND_USAGE = '[options] -- <command> [args...]';
const USAGE = `[apply | swap] ${COMMAND_USAGE}\n       safemigrate <subcommand> [options]`;

const DESCRIPTION = `Rehearses a PostgreSQL migration command on a full-size clone of the target,
and reports what it would do. Only "apply" and "swap" change the target.

Examples:
  safemigrate -- npx prisma migrate deploy         rehearse, change nothing
  safemigrate apply -- npx prisma migrate deploy   rehearse, ask, then run it
  safemigrate swap -- npx prisma migrate deploy    migrate a clone, swap it in`;

const NOTES = `
All options: --help all, apply --help. JSON Schema: safemigrate schema report.
Without --url the target is $DATABASE_URL, else the PG* variables, else ./.env.
Exit codes: 0 passed, 1 did not pass, 2 wrong usage, 3 could not rehearse,
4 apply or swap refused or undone, 5 target changed: look at it, 128+n signal`;

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
  const showsAllOf = asksForAll(own);
  const wantsAll = showsAllOf === 'rehearse';
  const words = showsAllOf === undefined ? [...own] : wantsAll ? ['--help'] : [showsAllOf, '--help'];
  let parsed: ParsedArguments | undefined;
  const program = runProgram(wantsAll, hasCommand).action((stray: string[]) => {
    if (stray.length > 0) throw strayWords(stray, hasCommand);
    parsed = { action: 'rehearse', values: program.opts() };
  });
  const possible = subcommands().filter(([, { takesCommand }]) => !hasCommand || takesCommand);
  for (const [action, { options, summary, argument, common = true, takesCommand = false }] of possible) {
    const hidden = !wantsAll && !common;
    const command = configure(program.command(action, { hidden })).description(summary);
    if (action === 'apply' || action === 'swap') addMode(command, action, showsAllOf === action);
    else {
      for (const each of flagsIn(options)) addOption(command, each);
      command.addHelpText('after', () => sharedFlagsText(options));
    }
    if (argument !== undefined) command.argument(argument);
    command.allowExcessArguments(takesCommand).action(() => {
      const [subject] = command.args;
      if (takesCommand && subject !== undefined) throw strayWords(command.args, hasCommand, action);
      const values = together(shared(program.opts(), action, options), command.opts());
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
      hint: unknownFlagHint(unknown) ?? 'All options: safemigrate --help all',
    });
  }
  return parsed ?? 'shown';
}

/** Names the mode whose whole help is wanted: `--help all`, `help all`, `apply --help all`. */
function asksForAll(own: readonly string[]): RunMode | undefined {
  const mode = own[0] === 'apply' || own[0] === 'swap' ? own[0] : 'rehearse';
  const [first = '', second, ...more] = mode === 'rehearse' ? own : own.slice(1);
  return ['--help', '-h', 'help'].includes(first) && second === 'all' && more.length === 0 ? mode : undefined;
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
    .argument('[words...]');
  addRunOptions(program, 'rehearse', showsAll);
  program.addHelpText('after', NOTES);
  return program.version(toolVersion(), '--version', 'print the version');
}

/** Gives a mode that changes the target its help, in the form of the program's own. */
function addMode(command: Command, mode: 'apply' | 'swap', showsAll: boolean): void {
  command
    .usage(COMMAND_USAGE)
    // The options of a command that lacks its two dashes are none of ours.
    .passThroughOptions()
    .addHelpText('after', `\nAll options: safemigrate ${mode} --help all.`);
  addRunOptions(command, mode, showsAll);
}

/** Groups of which the help of a mode shows every option. */
const OWN_GROUPS: Readonly<Record<RunMode, readonly Group[]>> = {
  rehearse: [],
  apply: ['Change the target', 'Apply'],
  swap: ['Change the target', 'Swap'],
};

/**
 * Adds the options of a mode by their groups.
 * @param showsAll the help has every one, not only the common ones and those of the mode's own groups.
 */
function addRunOptions(command: Command, mode: RunMode, showsAll: boolean): void {
  const tree = MODE_SETTINGS[mode];
  const flags = flagsIn(tree);
  for (const group of GROUPS) {
    const isShown = showsAll || OWN_GROUPS[mode].includes(group);
    for (const each of flags.filter((other) => other.group === group))
      addOption(command, each, { group: `${group}:`, hidden: !isShown && !each.common });
  }
  if (showsAll) command.addHelpText('after', () => sharedFlagsText(tree));
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
  const given = flagsIn(MODE_SETTINGS.rehearse).filter(({ name }) => values[attributeOf(name)] !== undefined);
  const stray = given.find(({ name }) => !own.includes(name));
  if (stray === undefined) return values;
  throw new SafemigrateError('USAGE', `${stray.name} is no option of \`safemigrate ${action}\`.`, {
    hint: `All options: safemigrate ${action} --help`,
  });
}

/** The values of options before and after a subcommand's name: each one counts, as if they stood together. */
function together(before: Record<string, unknown>, after: Record<string, unknown>): Record<string, unknown> {
  const both = Object.keys(before).filter((key) => key in after);
  const joined = both.map((key) => [key, [before[key], after[key]].flat()]);
  return { ...before, ...after, ...Object.fromEntries(joined) };
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
