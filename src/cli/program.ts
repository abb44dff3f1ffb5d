import { Command, CommanderError, Option } from 'commander';
import { SafemigrateError } from '../errors.ts';
import { toolVersion } from '../package.ts';
import { flagOf, type OptionTable, RUN_OPTIONS } from './options-table.ts';
import { strayWords } from './split-arguments.ts';
import { type SubcommandName, subcommands } from './subcommands.ts';

/** What the words before `--` ask for; the values are still text. */
export interface ParsedArguments {
  readonly action: 'rehearse' | SubcommandName;
  readonly values: Record<string, unknown>;
  /** What stood behind a subcommand's name: a run, a code, a file. */
  readonly subject?: string;
}

const EXAMPLES = `
Examples:
  $ safemigrate -- npx prisma migrate deploy
  $ safemigrate --report report.json -- npx knex migrate:latest
  $ safemigrate --apply --yes -- npx knex migrate:latest
  $ safemigrate --url-env STAGING_URL --disconnect idle -- dbmate up
  $ safemigrate --keep -- psql -v ON_ERROR_STOP=1 -f migration.sql
  $ safemigrate -- flyway -url={safemigrate:jdbc-url} migrate

The target is taken from --url, else $DATABASE_URL (--url-env), else the PG* variables, else DATABASE_URL in ./.env.
Every option can also be set as SAFEMIGRATE_<OPTION> or in safemigrate.config.{js,mjs,json}.

Exit codes:
  0  passed
  1  did not pass: the command failed on the clone, or the verdict says no; the target is untouched
  2  wrong usage or configuration
  3  could not rehearse: connection, privilege, disk, no usable way to clone
  4  apply or swap was refused, or nothing of it stays; the target is as it was
  5  the target was changed and is not as asked: a person must look
  128+n  ended by signal n, after cleaning up`;

/**
 * Reads the words before `--`. Printing help is commander's; everything wrong is thrown.
 * @throws SafemigrateError `USAGE`; `'shown'` is returned after help was printed.
 */
export function readWords(own: readonly string[], hasCommand: boolean): ParsedArguments | 'shown' {
  let asked: ParsedArguments | undefined;
  const program = configure(new Command('safemigrate'), RUN_OPTIONS)
    .usage(
      `[options] -- <command> [args...]\n       safemigrate ${subcommands()
        .map(([name]) => name)
        .join(' | ')}`,
    )
    .description('Rehearse any PostgreSQL migration command on an instant full-size clone of the target.')
    .version(toolVersion(), '--version', 'print the version')
    // Without it `clean --url …` would give the URL to the program, and the subcommand would work somewhere else.
    .enablePositionalOptions()
    .helpCommand(!hasCommand)
    .passThroughOptions()
    .argument('[words...]')
    .addHelpText('after', EXAMPLES)
    .action((stray: string[]) => {
      if (stray.length > 0) throw strayWords(stray, hasCommand);
      asked = { action: 'rehearse', values: program.opts() };
    });
  if (!hasCommand) {
    for (const [action, { options, description, argument }] of subcommands()) {
      const command = configure(program.command(action), options).description(description);
      if (argument !== undefined) command.argument(argument);
      command.allowExcessArguments(false).action(() => {
        const [subject] = command.args;
        const values = { ...shared(program.opts(), action, options), ...command.opts() };
        asked = { action, values, ...(subject === undefined ? {} : { subject }) };
      });
    }
  }
  try {
    program.parse([...own], { from: 'user' });
  } catch (error) {
    if (!(error instanceof CommanderError)) throw error;
    if (error.exitCode === 0) return 'shown';
    throw new SafemigrateError('USAGE', asSentence(error.message), {
      hint: 'All options: safemigrate --help',
    });
  }
  return asked ?? 'shown';
}

/** Options before the subcommand's name count as if they stood behind it; one that it does not have is a mistake. */
function shared(
  values: Record<string, unknown>,
  action: string,
  table: OptionTable,
): Record<string, unknown> {
  const stray = Object.keys(values).find((key) => !(key in table));
  if (stray === undefined) return values;
  throw new SafemigrateError('USAGE', `${flagOf(stray)} is no option of \`safemigrate ${action}\`.`, {
    hint: `All options: safemigrate ${action} --help`,
  });
}

/** Commander's `error: unknown option '--pla'`, perhaps with a guess in a second line. */
function asSentence(message: string): string {
  const [what = '', guess] = message.replace(/^error: /, '').split('\n');
  const sentence = `${what.charAt(0).toUpperCase()}${what.slice(1)}`.replace(/\.?$/, '.');
  return guess === undefined ? sentence : `${sentence} ${guess}`;
}

function configure(command: Command, table: OptionTable): Command {
  command
    .exitOverride()
    .configureOutput({ writeErr: () => {} })
    .helpOption('-h, --help', 'show this help');
  for (const [key, spec] of Object.entries(table)) {
    const option = new Option(
      spec.flag,
      spec.default ? `${spec.description} (default: ${spec.default})` : spec.description,
    );
    if (option.attributeName() !== key)
      throw new Error(`${spec.flag} is declared under the key ${key}, not ${flagOf(key)}`);
    // A switch has no value of its own.
    option.argParser((value: string | undefined, previous: string[] | undefined) => [
      ...(previous ?? []),
      value ?? 'true',
    ]);
    command.addOption(option);
    if (spec.negation) command.addOption(new Option(spec.flag.replace('--', '--no-'), spec.negation));
  }
  return command;
}
