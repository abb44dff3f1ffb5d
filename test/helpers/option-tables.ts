import { RUN_SETTINGS } from '../../src/cli/options/run-table.ts';
import { subcommands } from '../../src/cli/options/subcommand-table.ts';
import {
  describeSetting,
  flagName,
  GROUPS,
  type Setting,
  type SettingTree,
  settingsIn,
} from '../../src/settings.ts';

/** The block of docs/cli.md that `npm run docs` writes. */
export const OPTIONS_BLOCK = 'options';
/** The page that has it, from the top of the project. */
export const OPTIONS_PAGE = 'docs/cli.md';

/** All options as Markdown, made from the table that the command line itself reads. */
export function optionTables(): string {
  const run = settingsIn(RUN_SETTINGS);
  const groups = GROUPS.map((group) =>
    tableOf(
      group,
      run.filter((spec) => spec.group === group),
    ),
  );
  const others = subcommands()
    .filter(([, { options }]) => Object.keys(options).length > 0)
    .map(([name, { options }]) => `- \`${name}\`: ${flagsOf(options)}`);
  const all = [RUN_SETTINGS, ...subcommands().map(([, { options }]) => options)].flatMap(settingsIn);
  const flagOnly = all.filter(({ notInFile }) => notInFile === true);
  return [
    ...groups,
    `Subcommands take these, with the same meaning unless it is given here:\n\n${others.join('\n')}`,
    tableOf('Subcommands', ownOptions()),
    `Not in a config file: ${[...new Set(flagOnly.map(quotedFlag))].join(', ')}.`,
  ].join('\n\n');
}

function tableOf(title: string, specs: readonly Setting<unknown>[]): string {
  const rows = specs.flatMap((spec) => [
    `| \`${spec.flag}\` | ${cell(describeSetting(spec))} |`,
    ...(spec.negation ? [`| \`--no-${flagName(spec).slice(2)}\` | ${cell(spec.negation)} |`] : []),
  ]);
  return [`| ${title} | |`, '|---|---|', ...rows].join('\n');
}

/** Options of subcommands that a run does not have, or that mean something else there. */
function ownOptions(): Setting<unknown>[] {
  const run = settingsIn(RUN_SETTINGS).map(describeSetting);
  const own = subcommands().flatMap(([name, { options }]) =>
    settingsIn(options)
      .filter((spec) => !run.includes(describeSetting(spec)))
      .map((spec) => ({ ...spec, flag: `${name} ${spec.flag}` })),
  );
  return own;
}

function flagsOf(tree: SettingTree): string {
  return settingsIn(tree).map(quotedFlag).join(', ');
}

function quotedFlag(setting: Setting<unknown>): string {
  return `\`${flagName(setting)}\``;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}
