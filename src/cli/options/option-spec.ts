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

/** What a run does in the end: it only rehearses, or changes the target in one of two ways. */
export type RunMode = 'rehearse' | 'apply' | 'swap';

/**
 * An option, declared once. Its SAFEMIGRATE_* variable and its key in a config file follow from the flag; its key in a table
 * is the name of the setting that it gives, with the unit.
 */
export interface OptionSpec<T> {
  /** As on the command line, `--max-stall <duration>`; a switch has no argument. */
  readonly flag: string;
  readonly summary: string;
  readonly group: Group;
  readonly type: ValueType<T>;
  /** The value that holds if none is given, for the help. */
  readonly default?: T | null;
  /** Shown by a plain `--help`. */
  readonly common?: boolean;
  /** Modes in which it has an effect; default: all. */
  readonly modes?: readonly RunMode[];
  /** A config file must not set it, or not to one of these values: such a file comes with the code that is rehearsed, and this makes a run more dangerous. `x*`: any value that begins with x. */
  readonly notInFile?: boolean | readonly (T | `${string}*`)[];
  /** An empty variable is a mistake: in CI a secret that is missing is empty. Elsewhere it counts as not set. */
  readonly refusesEmpty?: boolean;
  /** For a switch that is sometimes on by default: what `--no-…` does. */
  readonly negation?: string;
}

export type OptionTable = Readonly<Record<string, OptionSpec<unknown>>>;

export type OptionValues<T extends OptionTable> = {
  readonly [K in keyof T]?: ReturnType<T[K]['type']['parse']>;
};

/** One declaration for each of some settings. */
export type OptionsFor<Settings> = {
  readonly [K in keyof Settings]-?: OptionSpec<Exclude<Settings[K], undefined | null>>;
};

/**
 * Declares an option for each of some settings, with the defaults that the program itself uses: one that is missing on
 * either side does not compile.
 */
export function declareOptions<Settings>(
  defaults: { readonly [K in keyof Settings]-?: Settings[K] | null },
  options: OptionsFor<Settings>,
): OptionsFor<Settings> {
  const declared = Object.entries<object>(options).map(([key, option]) => [
    key,
    { ...option, default: defaults[key as keyof Settings] },
  ]);
  return Object.fromEntries(declared) as OptionsFor<Settings>;
}

/** The settings that a table declares, out of the values of several tables. */
export function settingsIn<T extends OptionTable>(table: T, values: OptionValues<T>): OptionValues<T> {
  const picked = Object.entries(values).filter(([key]) => Object.hasOwn(table, key));
  return Object.fromEntries(picked) as OptionValues<T>;
}

/** `--max-stall` of `--max-stall <duration>`. */
export function flagName({ flag }: Pick<OptionSpec<unknown>, 'flag'>): string {
  return flag.split(' ')[0] ?? flag;
}

/** The key in a config file: `maxStall` for `--max-stall`. */
export function configKeyOf(spec: Pick<OptionSpec<unknown>, 'flag'>): string {
  return flagName(spec)
    .slice(2)
    .replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase());
}

/** `SAFEMIGRATE_MAX_STALL` for `--max-stall`. */
export function variableOf(spec: Pick<OptionSpec<unknown>, 'flag'>): string {
  return `SAFEMIGRATE_${flagName(spec).slice(2).replaceAll('-', '_').toUpperCase()}`;
}

/** The summary with the default, as every help and table shows it. */
export function describeOption({ summary, type, default: value }: OptionSpec<unknown>): string {
  if (value === undefined || value === null || value === false) return summary;
  if (Array.isArray(value) && value.length === 0) return summary;
  return `${summary} (default: ${type.format(value)})`;
}
