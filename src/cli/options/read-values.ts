import { SafemigrateError } from '../../errors.ts';
import {
  configKeyOf,
  flagName,
  type OptionSpec,
  type OptionTable,
  type OptionValues,
} from './option-spec.ts';

/** One source of values, by the keys of a config file, and how to name one of them in a mistake. */
export interface OptionSource {
  readonly kind: 'flags' | 'variables' | 'file';
  readonly values: Readonly<Record<string, unknown>>;
  readonly nameOf: (key: string) => string;
}

/**
 * Reads the sources in order of precedence: the first one that names an option wins.
 * @param known all options of the program: one of another subcommand is no mistake in a file.
 * @throws SafemigrateError `CONFIGURATION` with every mistake of all sources at once.
 */
export function readValues<T extends OptionTable>(
  table: T,
  known: readonly OptionTable[],
  sources: readonly OptionSource[],
): OptionValues<T> {
  const options = byConfigKey([table]);
  const knownOptions = byConfigKey([...known, table]);
  const mistakes: string[] = [];
  const values: Record<string, unknown> = {};
  for (const { kind, values: given, nameOf } of sources) {
    for (const [configKey, value] of Object.entries(given)) {
      if (value === undefined) continue;
      const spec = knownOptions.get(configKey)?.spec;
      const own = options.get(configKey);
      if (spec === undefined) {
        mistakes.push(`${nameOf(configKey)} is no option of safemigrate.`);
      } else if (kind === 'file' && isDangerous(spec, value)) {
        const what = spec.notInFile === true ? 'be set' : `be ${String(value)}`;
        mistakes.push(
          `${nameOf(configKey)} cannot ${what} in a file: use ${flagName(spec)} or its variable.`,
        );
      } else if (own !== undefined) {
        try {
          const parsed = parseValue(own.spec, value);
          values[own.key] ??= parsed;
        } catch (error) {
          mistakes.push(`${nameOf(configKey)} ${error instanceof Error ? error.message : String(error)}`);
        }
      }
    }
  }
  if (mistakes.length > 0) throw wrongOptions('CONFIGURATION', mistakes);
  return values as OptionValues<T>;
}

function isDangerous({ notInFile = false }: OptionSpec<unknown>, value: unknown): boolean {
  if (typeof notInFile === 'boolean') return notInFile;
  return [value].flat().some((each) => notInFile.some((unwanted) => isMeant(String(unwanted), String(each))));
}

function isMeant(unwanted: string, value: string): boolean {
  return unwanted.endsWith('*') ? value.startsWith(unwanted.slice(0, -1)) : value === unwanted;
}

export function wrongOptions(code: 'CONFIGURATION' | 'USAGE', mistakes: readonly string[]): SafemigrateError {
  const [only = ''] = mistakes;
  const message =
    mistakes.length === 1
      ? only
      : `${mistakes.length} options are wrong:\n${mistakes.map((mistake) => `  ${mistake}`).join('\n')}`;
  return new SafemigrateError(code, message, {
    hint: 'Nothing was touched. All options: safemigrate --help all',
  });
}

function byConfigKey(tables: readonly OptionTable[]) {
  const entries = tables.flatMap((table) =>
    Object.entries(table).map(([key, spec]) => [configKeyOf(spec), { key, spec }] as const),
  );
  return new Map(entries);
}

function parseValue({ type }: OptionSpec<unknown>, value: unknown): unknown {
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
