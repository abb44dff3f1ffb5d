import {
  describeOption,
  flagName,
  GROUPS,
  type OptionSpec,
  type OptionTable,
} from '../../src/cli/options/option-spec.ts';
import { RUN_OPTIONS } from '../../src/cli/options/run-table.ts';
import { subcommands } from '../../src/cli/options/subcommand-table.ts';

/** The block of docs/cli.md that `npm run docs` writes. */
export const OPTIONS_BLOCK = 'options';
/** The page that has it, from the top of the project. */
export const OPTIONS_PAGE = 'docs/cli.md';

/** All options as Markdown, made from the table that the command line itself reads. */
export function optionTables(): string {
  const run = Object.values(RUN_OPTIONS);
  const groups = GROUPS.map((group) =>
    tableOf(
      group,
      run.filter((spec) => spec.group === group),
    ),
  );
  const others = subcommands()
    .filter(([, { options }]) => Object.keys(options).length > 0)
    .map(([name, { options }]) => `- \`${name}\`: ${flagsOf(options)}`);
  const only = Object.assign({}, RUN_OPTIONS, ...subcommands().map(([, { options }]) => options));
  return [
    ...groups,
    `Subcommands take these, with the same meaning unless it is given here:\n\n${others.join('\n')}`,
    tableOf('Subcommands', ownOptions()),
    `Not in a config file: ${flagsOf(only, (spec) => spec.notInFile === true)}.`,
  ].join('\n\n');
}

function tableOf(title: string, specs: readonly OptionSpec<unknown>[]): string {
  const rows = specs.flatMap((spec) => [
    `| \`${spec.flag}\` | ${cell(describeOption(spec))} |`,
    ...(spec.negation ? [`| \`--no-${flagName(spec).slice(2)}\` | ${cell(spec.negation)} |`] : []),
  ]);
  return [`| ${title} | |`, '|---|---|', ...rows].join('\n');
}

/** Options of subcommands that a run does not have, or that mean something else there. */
function ownOptions(): OptionSpec<unknown>[] {
  const run = Object.values(RUN_OPTIONS).map(describeOption);
  const own = subcommands().flatMap(([name, { options }]) =>
    Object.values(options)
      .filter((spec) => !run.includes(describeOption(spec)))
      .map((spec) => ({ ...spec, flag: `${name} ${spec.flag}` })),
  );
  return own;
}

function flagsOf(table: OptionTable, wanted: (spec: OptionSpec<unknown>) => boolean = () => true): string {
  return Object.values(table)
    .filter(wanted)
    .map((spec) => `\`${flagName(spec)}\``)
    .join(', ');
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}
