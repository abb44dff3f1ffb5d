import { SafemigrateError } from './errors.ts';
import type { ValueType } from './value-types.ts';

/** The headings of the help, in its order. */
export const GROUPS = [
  'Target',
  'Clone',
  'Profile',
  'Command',
  'Checks',
  'Load',
  'Policy',
  'Report',
  'Change the target',
  'Apply',
  'Swap',
] as const;
export type Group = (typeof GROUPS)[number];

/** Kinds of runs: one only rehearses, the others change the target, each in its way. */
export const RUN_MODES = ['rehearse', 'apply', 'swap'] as const;
export type RunMode = (typeof RUN_MODES)[number];

/** Everything about a setting but its flag, its type and its value without one. */
interface Traits {
  /** Its meaning, as help and docs show it, and its only description. */
  readonly summary: string;
  readonly group?: Group;
  /** Shown by a plain `--help`. */
  readonly common?: boolean;
  /** Modes in which it has an effect; default: all. */
  readonly modes?: readonly RunMode[];
  /**
   * A config file must not set it, or not to one of these values: such a file comes with the code that is rehearsed, and this
   * makes a run more dangerous. `x*`: any value that begins with x.
   */
  readonly notInFile?: boolean | readonly string[];
  /** Key of the switch without which it has no effect. Its flag alone is a mistake; a variable or a file may keep a value for other runs. */
  readonly needs?: string;
  /** An empty variable is a mistake: in CI a secret that is missing is empty. Elsewhere it counts as not set. */
  readonly refusesEmpty?: boolean;
  /** For a switch that is sometimes on by default: the effect of `--no-…`. */
  readonly negation?: string;
}

/**
 * A setting, declared once. Each has a SAFEMIGRATE_* variable and a key in a config file, which follow from its flag if it has one.
 * Its place in a tree is that of its value in the plan and in the options of the library.
 * @typeParam V its value in a plan; null if nothing is set and there is no default.
 */
export interface Setting<V> extends Traits {
  readonly isSetting: true;
  /** The key in a config file: `maxStall`. */
  readonly key: string;
  /**
   * The spelling on the command line: `--schema-only`, `--clone <method>`; `--limit wal=<size>` and `--permit cluster` share their flags with
   * others. null: it has none, because it differs by project and not by run.
   */
  readonly flag: string | null;
  readonly type: ValueType<unknown>;
  readonly default: V;
}

export interface SettingTree {
  readonly [name: string]: Setting<unknown> | SettingTree;
}

/** The values of all settings of a tree, with every default filled in. */
export type PlanOf<T extends SettingTree> = {
  readonly [K in keyof T]: T[K] extends Setting<infer V>
    ? V
    : T[K] extends SettingTree
      ? PlanOf<T[K]>
      : never;
};

/** The same values as a user gives them: each may be left out. */
export type OptionsOf<T extends SettingTree> = {
  readonly [K in keyof T]?:
    | (T[K] extends Setting<infer V> ? NonNullable<V> : T[K] extends SettingTree ? OptionsOf<T[K]> : never)
    | undefined;
};

/** Declares a setting that a flag gives: its key is `schemaOnly` for `--schema-only`, `maxWal` for `--limit wal=<size>`. */
export function flag<T>(
  name: string,
  type: ValueType<T>,
  traits: Traits & { readonly default: NoInfer<T> },
): Setting<T>;
export function flag<T>(name: string, type: ValueType<T>, traits: Traits): Setting<T | null>;
export function flag(
  name: string,
  type: ValueType<unknown>,
  traits: Traits & { readonly default?: unknown },
): Setting<unknown> {
  const [first = '', second = ''] = name.replace(/[ =]?[<[].*/, '').split(' ');
  const bound = second.startsWith('free') ? 'min' : 'max';
  const words = first === '--limit' ? `${bound}-${second}` : `${first.slice(2)}-${second}`;
  const key = words.replace(/-$/, '').replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
  return { isSetting: true, key, flag: name, type, default: null, ...traits };
}

/** Declares a setting without a flag. */
export function unflagged<T>(
  key: string,
  type: ValueType<T>,
  traits: Traits & { readonly default: NoInfer<T> },
): Setting<T>;
export function unflagged<T>(key: string, type: ValueType<T>, traits: Traits): Setting<T | null>;
export function unflagged(
  key: string,
  type: ValueType<unknown>,
  traits: Traits & { readonly default?: unknown },
): Setting<unknown> {
  return { isSetting: true, key, flag: null, type, default: null, ...traits };
}

/** Gives all settings of a tree what they share; what one says itself takes precedence. */
export function grouped<T extends SettingTree>(
  shared: Pick<Traits, 'group' | 'modes' | 'notInFile'>,
  tree: T,
): T {
  const filled = Object.entries(tree).map(([name, node]) => [
    name,
    isSetting(node) ? { ...shared, ...node } : grouped(shared, node),
  ]);
  return Object.fromEntries(filled) as T;
}

/** Some settings of a tree, such as those that a subcommand shares with a rehearsal. */
export function pick<T extends SettingTree, const K extends keyof T>(tree: T, ...names: K[]): Pick<T, K> {
  return Object.fromEntries(names.map((name) => [name, tree[name]])) as Pick<T, K>;
}

/** The settings that have an effect in a mode. The type is that of the whole tree, whose values may all be left out. */
export function inMode<T extends SettingTree>(tree: T, mode: RunMode): T {
  const kept = Object.entries(tree)
    .filter(([, { modes }]) => !Array.isArray(modes) || modes.includes(mode))
    .map(([name, node]) => [name, isSetting(node) ? node : inMode(node, mode)]);
  return Object.fromEntries(kept) as T;
}

/** Fills in the defaults; a setting that is undefined counts as not given. */
export function fillIn<T extends SettingTree>(tree: T, given: OptionsOf<T>): PlanOf<T> {
  const values = new Map(Object.entries<unknown>(given));
  const filled = Object.entries(tree).map(([name, node]) => {
    const value = values.get(name) ?? undefined;
    if (isSetting(node)) return [name, value ?? node.default];
    if (value !== undefined && typeof value !== 'object')
      throw new SafemigrateError('CONFIGURATION', `The option "${name}" is not an object of options.`, {
        hint: 'The package has types that list them. Nothing was touched.',
      });
    return [name, fillIn(node, { ...value })];
  });
  return Object.fromEntries(filled) as PlanOf<T>;
}

/** All settings of a tree, in order, each with its place. */
export function settingPlaces(
  tree: SettingTree,
  above: readonly string[] = [],
): { readonly path: readonly string[]; readonly setting: Setting<unknown> }[] {
  return Object.entries(tree).flatMap(([name, node]) => {
    const path = [...above, name];
    return isSetting(node) ? [{ path, setting: node }] : settingPlaces(node, path);
  });
}

export function settingsIn(tree: SettingTree): Setting<unknown>[] {
  return settingPlaces(tree).map(({ setting }) => setting);
}

function isSetting(node: Setting<unknown> | SettingTree): node is Setting<unknown> {
  return node.isSetting === true;
}

/** The variable of a setting: `SAFEMIGRATE_MAX_STALL` for `maxStall`. */
export function variableOf({ key }: Pick<Setting<unknown>, 'key'>): string {
  return `SAFEMIGRATE_${key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;
}

/** The words by which a person gives a setting: `--clone`, `--limit wal`, or the variable of one without a flag. */
export function nameOfSetting(setting: Setting<unknown>): string {
  return setting.flag?.replace(/[ =]?[<[].*/, '') ?? variableOf(setting);
}

/** The summary with the default, as every help and table shows it. */
export function describeSetting({ summary, type, default: value }: Setting<unknown>): string {
  if (value === null || value === false) return summary;
  if (Array.isArray(value) && value.length === 0) return summary;
  return `${summary} (default: ${type.format(value)})`;
}
