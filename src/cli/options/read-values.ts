import { SafemigrateError } from '../../errors.ts';
import {
  nameOfSetting,
  type OptionsOf,
  type Setting,
  type SettingTree,
  settingPlaces,
  settingsIn,
  variableOf,
} from '../../settings.ts';

/** One source of values, by the keys of a config file, and how to name one of them in a mistake. */
export interface OptionSource {
  readonly kind: 'flags' | 'variables' | 'file';
  readonly values: Readonly<Record<string, unknown>>;
  readonly nameOf: (key: string) => string;
  /** Mistakes that were found before. */
  readonly mistakes?: readonly string[];
}

/**
 * Reads the sources in order of precedence: the first one that names a setting wins.
 * @param known all settings of the program: one of another subcommand is no mistake in a file.
 * @throws SafemigrateError `CONFIGURATION` with every mistake of all sources at once.
 */
export function readValues<T extends SettingTree>(
  tree: T,
  known: readonly SettingTree[],
  sources: readonly OptionSource[],
): OptionsOf<T> {
  const places = new Map(settingPlaces(tree).map((place) => [place.setting.key, place]));
  const everywhere = [...known, tree].flatMap(settingsIn);
  const knownSettings = new Map(everywhere.map((setting) => [setting.key, setting]));
  const mistakes = sources.flatMap((source) => source.mistakes ?? []);
  const found = new Map<readonly string[], unknown>();
  const flagged: Setting<unknown>[] = [];
  for (const { kind, values: given, nameOf } of sources) {
    for (const [configKey, value] of Object.entries(given)) {
      if (value === undefined) continue;
      const setting = knownSettings.get(configKey);
      const own = places.get(configKey);
      if (setting === undefined) {
        mistakes.push(`${nameOf(configKey)} is no option of safemigrate.`);
      } else if (kind === 'file' && isDangerous(setting, value)) {
        const what = setting.notInFile === true ? 'be set' : `be ${String(value)}`;
        mistakes.push(`${nameOf(configKey)} cannot ${what} in a file: use ${placesOutside(setting)}.`);
      } else if (own !== undefined) {
        if (kind === 'flags') flagged.push(own.setting);
        try {
          const parsed = parseValue(own.setting, value);
          if (!found.has(own.path)) found.set(own.path, parsed);
        } catch (error) {
          mistakes.push(`${nameOf(configKey)} ${error instanceof Error ? error.message : String(error)}`);
        }
      }
    }
  }
  for (const setting of flagged) {
    const needed = places.get(setting.needs ?? '');
    if (needed && found.get(needed.path) !== true)
      mistakes.push(`${nameOfSetting(setting)} needs ${nameOfSetting(needed.setting)}.`);
  }
  if (mistakes.length > 0) throw wrongOptions(mistakes);
  return asTree(found) as OptionsOf<T>;
}

interface ValueTree {
  [name: string]: unknown;
}

/** Puts each value in its place; a part of the tree in which nothing is given is not there. */
function asTree(found: ReadonlyMap<readonly string[], unknown>): ValueTree {
  const tree: ValueTree = {};
  for (const [path, value] of found) {
    const name = path.at(-1) ?? '';
    const parent = path.slice(0, -1).reduce<ValueTree>((node, part) => {
      node[part] ??= {};
      return node[part] as ValueTree;
    }, tree);
    parent[name] = value;
  }
  return tree;
}

function placesOutside(setting: Setting<unknown>): string {
  const name = nameOfSetting(setting);
  return setting.flag === null ? name : `${name} or ${variableOf(setting)}`;
}

function isDangerous({ notInFile = false }: Setting<unknown>, value: unknown): boolean {
  if (typeof notInFile === 'boolean') return notInFile;
  return [value].flat().some((each) => notInFile.some((unwanted) => isMeant(String(unwanted), String(each))));
}

function isMeant(unwanted: string, value: string): boolean {
  return unwanted.endsWith('*') ? value.startsWith(unwanted.slice(0, -1)) : value === unwanted;
}

function wrongOptions(mistakes: readonly string[]): SafemigrateError {
  const [only = ''] = mistakes;
  const message =
    mistakes.length === 1
      ? only
      : `${mistakes.length} options are wrong:\n${mistakes.map((mistake) => `  ${mistake}`).join('\n')}`;
  return new SafemigrateError('CONFIGURATION', message, {
    hint: 'Nothing was touched. All options: safemigrate --help all',
  });
}

function parseValue({ type }: Setting<unknown>, value: unknown): unknown {
  const items = Array.isArray(value) ? value : [value];
  if (items.length > 1 && !type.repeatable) throw new Error('can be given only once.');
  const parsed = items.map((item) => {
    if (['string', 'number', 'boolean'].includes(typeof item)) return type.parse(String(item));
    const isObject = typeof item === 'object' && item !== null && !Array.isArray(item);
    if (isObject && type.parseObject) return type.parseObject({ ...item });
    throw new Error(`is ${JSON.stringify(item)}, and must be a plain value.`);
  });
  return type.repeatable ? parsed.flat() : parsed[0];
}
