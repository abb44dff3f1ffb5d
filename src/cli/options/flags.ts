import {
  describeSetting,
  type Group,
  nameOfSetting,
  RUN_MODES,
  type Setting,
  type SettingTree,
  settingsIn,
  variableOf,
} from '../../settings.ts';
import { RUN_SETTINGS } from './run-table.ts';

/** A flag as the command line has it: that of one setting, or one that several share. */
export interface Flag {
  /** `--clone` */
  readonly name: string;
  /** With its argument: `--clone <method>`. */
  readonly usage: string;
  readonly summary: string;
  readonly group: Group | undefined;
  readonly common: boolean;
  readonly repeatable: boolean;
  readonly negation: string | undefined;
}

type Shared = Pick<Flag, 'usage' | 'summary' | 'group'>;

/** Flags that several settings share, each with a name of its own in the argument. */
const SHARED: ReadonlyMap<string, Shared> = new Map([
  [
    '--limit',
    {
      usage: '--limit <name=value>',
      summary: 'the most or least that is accepted of something, by the names below; repeatable',
      group: 'Policy',
    },
  ],
  [
    '--permit',
    {
      usage: '--permit <what>',
      summary: 'let the run do what it would refuse, by the words below; repeatable',
      group: 'Command',
    },
  ],
]);

/** The flags of a tree of settings, each once, in the order of its settings. */
export function flagsIn(tree: SettingTree): Flag[] {
  const flags = new Map<string, Flag>();
  for (const setting of settingsIn(tree)) {
    const usage = setting.flag;
    if (usage === null) continue;
    const name = flagOf(usage);
    const shared = SHARED.get(name);
    const { group, common = false, type, negation } = setting;
    if (shared === undefined)
      flags.set(name, {
        name,
        usage,
        summary: describeSetting(setting),
        group,
        common,
        repeatable: type.repeatable ?? false,
        negation,
      });
    else if (!flags.has(name))
      flags.set(name, {
        name,
        ...shared,
        common: false,
        repeatable: true,
        negation: undefined,
      });
  }
  return [...flags.values()];
}

/** The settings that share a flag, with what stands in its argument: `wal=<size>`, `cluster`. */
export function sharing(
  tree: SettingTree,
  name: '--limit' | '--permit',
): { readonly argument: string; readonly setting: Setting<unknown> }[] {
  return settingsIn(tree).flatMap((setting) =>
    setting.flag?.startsWith(`${name} `) ? [{ argument: setting.flag.slice(name.length + 1), setting }] : [],
  );
}

/** The key by which the parser of the command line stores a flag's values: `cloneDir` for `--clone-dir`. */
export function attributeOf(name: string): string {
  return name.slice(2).replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/**
 * Distributes the values of `--limit` and `--permit` to the settings that they name.
 * @returns the values by the keys of a config file, and what is wrong with the others.
 */
export function valuesOfFlags(
  tree: SettingTree,
  given: Readonly<Record<string, unknown>>,
): { readonly values: Record<string, unknown>; readonly mistakes: string[] } {
  const { limit = [], permit = [], ...rest } = given;
  const values = new Map<string, unknown>(Object.entries(rest));
  const mistakes: string[] = [];
  const add = (key: string, value: string) => {
    const before = values.get(key);
    values.set(key, Array.isArray(before) ? [...before, value] : [value]);
  };
  const limits = sharing(tree, '--limit');
  for (const text of [limit].flat().map(String)) {
    const at = text.indexOf('=');
    const found = limits.find(({ argument }) => at > 0 && argument.startsWith(text.slice(0, at + 1)));
    if (found) add(found.setting.key, text.slice(at + 1));
    else
      mistakes.push(
        modesOfName(`--limit ${text.slice(0, Math.max(at, 0))}`) ??
          `--limit is "${text}", and is written like NAME=VALUE, with one of the names ${limits.map(({ argument }) => argument.split('=')[0]).join(', ')}.`,
      );
  }
  const permits = sharing(tree, '--permit');
  const place = permits.find(({ argument }) => argument.startsWith('<'));
  for (const text of [permit].flat().map(String)) {
    const found = permits.find(({ argument }) => argument === text);
    if (found) add(found.setting.key, 'true');
    else if (place && /[:/]|^none$/.test(text)) add(place.setting.key, text);
    else
      mistakes.push(
        modesOfName(`--permit ${text}`) ??
          `--permit is "${text}", and can be ${permits.map(({ argument }) => argument).join(' or ')}.`,
      );
  }
  return { values: Object.fromEntries(values), mistakes };
}

/** Flags of earlier versions that have another name now; the others are found by their keys. */
const FORMER: ReadonlyMap<string, string> = new Map([
  ['--apply', 'safemigrate apply -- COMMAND'],
  ['--swap', 'safemigrate swap -- COMMAND'],
  ['--allow', '--accept CODE="reason"'],
  ['--allow-cluster-statements', '--permit cluster'],
  ['--allow-external-access', '--permit external'],
  ['--allow-standbys', '--permit standbys'],
  ['--expect-no-change', '--expect no-change'],
  ['--from', '--dump FILE'],
  ['--load-here', '--permit load-here'],
  ['--profile-max-age', '--limit profile-age=AGE'],
  ['--rehearsal-url', '--clone-to URL'],
  ['--sandbox-allow', '--permit HOST:PORT'],
  ['--source', '--clone-from URL'],
]);

/**
 * Says how to write what an unknown flag stood for, or stands for without its flag, or which modes have it.
 * @returns undefined if it never had a meaning.
 */
export function unknownFlagHint(name: string): string | undefined {
  const key = attributeOf(name);
  const setting = settingsIn(RUN_SETTINGS).find((each) => each.key === key);
  if (setting?.flag === null) {
    const inFile = setting.notInFile === true ? '' : `, or ${setting.key} in the config file`;
    return `It has no flag: set ${variableOf(setting)}${inFile}.`;
  }
  const now = FORMER.get(name) ?? setting?.flag;
  return modesOfName(name) ?? (now === undefined ? undefined : `Write ${now} instead.`);
}

/** Says which modes have an option; undefined if none has it. @param name `--retries`, `--limit lag`. */
function modesOfName(name: string): string | undefined {
  const setting = settingsIn(RUN_SETTINGS).find((each) => nameOfSetting(each) === name);
  if (setting === undefined) return undefined;
  const { modes = RUN_MODES } = setting;
  const having = modes.map((mode) => (mode === 'rehearse' ? 'a rehearsal' : `safemigrate ${mode}`));
  return `${name} is an option of ${having.join(' and ')}.`;
}

function flagOf(usage: string): string {
  return usage.split(' ')[0] ?? usage;
}
