import { RUN_SETTINGS } from '../../src/cli/options/run-table.ts';
import { subcommands } from '../../src/cli/options/subcommand-table.ts';
import {
  describeSetting,
  GROUPS,
  nameOfSetting,
  RUN_MODES,
  type RunMode,
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
    .filter(([name, { options }]) => !isMode(name) && Object.keys(options).length > 0)
    .map(([name, { options }]) => `- \`${name}\`: ${flagsOf(options)}`);
  const modes = RUN_MODES.filter((mode) => mode !== 'rehearse').map(
    (mode) => `- \`${mode}\`: all of these but ${without(mode)}`,
  );
  const all = [RUN_SETTINGS, ...subcommands().map(([, { options }]) => options)].flatMap(settingsIn);
  const never = all.filter(({ notInFile }) => notInFile === true);
  return [
    ...groups,
    `A rehearsal takes all of these but ${without('rehearse')}. The other modes:\n\n${modes.join('\n')}`,
    `Subcommands take these, with the same meaning unless it is given here:\n\n${others.join('\n')}`,
    tableOf('Subcommands', ownOptions()),
    `Not in a config file: ${[...new Set(never.map(quotedName))].join(', ')}.`,
  ].join('\n\n');
}

function isMode(name: string): boolean {
  return RUN_MODES.some((mode) => mode === name);
}

/** The flags that a mode does not take. */
function without(mode: RunMode): string {
  return withFlag(settingsIn(RUN_SETTINGS))
    .filter(({ modes }) => modes?.includes(mode) === false)
    .map(quotedName)
    .join(', ');
}

function tableOf(title: string, specs: readonly Setting<unknown>[]): string {
  const rows = withFlag(specs).flatMap((spec) => [
    `| \`${spec.flag}\` | ${cell(describeSetting(spec))} |`,
    ...(spec.negation ? [`| \`--no-${spec.flag?.slice(2)}\` | ${cell(spec.negation)} |`] : []),
  ]);
  return [`| ${title} | |`, '|---|---|', ...rows].join('\n');
}

/** Options of subcommands that a run does not have, or that mean something else there. */
function ownOptions(): Setting<unknown>[] {
  const run = settingsIn(RUN_SETTINGS).map(describeSetting);
  const own = subcommands().flatMap(([name, { options }]) =>
    withFlag(settingsIn(options))
      .filter((spec) => !run.includes(describeSetting(spec)))
      .map((spec) => ({ ...spec, flag: `${name} ${spec.flag}` })),
  );
  return own;
}

function flagsOf(tree: SettingTree): string {
  return withFlag(settingsIn(tree)).map(quotedName).join(', ');
}

function withFlag(settings: readonly Setting<unknown>[]): Setting<unknown>[] {
  return settings.filter(({ flag }) => flag !== null);
}

function quotedName(setting: Setting<unknown>): string {
  return `\`${nameOfSetting(setting)}\``;
}

function cell(text: string): string {
  return text.replaceAll('|', '\\|');
}
