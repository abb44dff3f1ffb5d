import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { loadModule } from '../../package.ts';
import { nameOfSetting, type SettingTree, settingsIn, variableOf } from '../../settings.ts';
import { valuesOfFlags } from './flags.ts';
import type { OptionSource } from './read-values.ts';

export const CONFIG_FILES = ['safemigrate.config.js', 'safemigrate.config.mjs', 'safemigrate.config.json'];

/** The flags of the command line, as its parser stores them. */
export function flagSource(tree: SettingTree, given: Readonly<Record<string, unknown>>): OptionSource {
  const names = new Map(settingsIn(tree).map((setting) => [setting.key, nameOfSetting(setting)]));
  return { kind: 'flags', ...valuesOfFlags(tree, given), nameOf: (key) => names.get(key) ?? key };
}

/** The SAFEMIGRATE_* variables of these options; an empty one counts as not set, unless the option refuses that. */
export function environmentSource(tree: SettingTree, env: NodeJS.ProcessEnv): OptionSource {
  const specs = settingsIn(tree);
  const variables = new Map(specs.map((spec) => [spec.key, variableOf(spec)]));
  const values = specs.map((spec) => {
    const value = env[variableOf(spec)];
    return [spec.key, value === '' && !spec.refusesEmpty ? undefined : value];
  });
  return {
    kind: 'variables',
    values: Object.fromEntries(values),
    nameOf: (key) => variables.get(key) ?? key,
  };
}

/**
 * Reads the config file of the folder, if there is one: `safemigrate.config.{js,mjs,json}` or the key `safemigrate` of
 * package.json. One that would have to be executed, and must not be, is passed over.
 * @param executes a configuration that is a program may be executed.
 * @throws SafemigrateError `CONFIGURATION` for two of them, or an unreadable one.
 */
export async function configSource(folder: string, executes: boolean): Promise<OptionSource | undefined> {
  const found = CONFIG_FILES.filter((name) => existsSync(join(folder, name)));
  const inPackage = readPackageKey(folder);
  const places = [...found, ...(inPackage === undefined ? [] : ['package.json'])];
  const [place] = places;
  if (place === undefined) return undefined;
  if (places.length > 1) {
    throw new SafemigrateError(
      'CONFIGURATION',
      `There are several configurations here: ${places.join(', ')}.`,
      {
        hint: 'Keep one of them.',
      },
    );
  }
  if (!executes && isProgram(place)) return undefined;
  const values = place === 'package.json' ? inPackage : await readConfigFile(join(folder, place));
  if (typeof values !== 'object' || values === null || Array.isArray(values))
    throw new SafemigrateError('CONFIGURATION', `${place}: The configuration is not an object of options.`);
  return { kind: 'file', values: { ...values }, nameOf: (key) => `${place}: ${key}` };
}

/** Names the config file of the folder that is a program; undefined if there is none. */
export function configProgram(folder: string): string | undefined {
  return CONFIG_FILES.find((name) => isProgram(name) && existsSync(join(folder, name)));
}

const isProgram = (name: string) => name.endsWith('js');

async function readConfigFile(path: string): Promise<unknown> {
  try {
    if (path.endsWith('.json')) return JSON.parse(readFileSync(path, 'utf8'));
    return (await loadModule(path)).default;
  } catch (error) {
    throw unreadable(path, error);
  }
}

function unreadable(path: string, cause: unknown): SafemigrateError {
  return new SafemigrateError('CONFIGURATION', `${path} cannot be read: ${messageOf(cause)}.`, { cause });
}

/** A package.json that cannot be read is an error only if it mentions us: a policy must not be lost silently. */
function readPackageKey(folder: string): unknown {
  const file = join(folder, 'package.json');
  let text = '';
  try {
    text = readFileSync(file, 'utf8');
    const content: { safemigrate?: unknown } = JSON.parse(text);
    return content.safemigrate;
  } catch (error) {
    if (!text.includes('"safemigrate"')) return undefined;
    throw unreadable(file, error);
  }
}
