/**
 * Every option, declared once: its flag, its SAFEMIGRATE_* variable and its key in the config file follow from the
 * key; one parser reads all three, so that a value means the same wherever it stands.
 */
export interface OptionSpec<T> {
  /** As on the command line, `--max-stall <duration>`; without an argument it is a switch. */
  readonly flag: string;
  readonly description: string;
  /** @throws Error with what is wrong with the value. */
  readonly parse: (text: string) => T;
  /** For what a config file may hold as an object. @throws Error with what is wrong with it. */
  readonly parseObject?: (value: Readonly<Record<string, unknown>>) => T;
  readonly repeatable?: boolean;
  /** Shown in the help. */
  readonly default?: string;
  /** Of a switch that is on by itself at times: what `--no-…` does. */
  readonly negation?: string;
}

export const option = <T>(
  flag: string,
  description: string,
  parse: (text: string) => T,
  more: { default?: string; negation?: string } = {},
): OptionSpec<T> => ({ flag, description, parse, ...more });

export const listOption = <T>(
  flag: string,
  description: string,
  parse: (text: string) => T,
): OptionSpec<T[]> => ({
  flag,
  description,
  parse: (text) => [parse(text)],
  repeatable: true,
});

export const textValue = (value: string): string => {
  if (value === '') throw new Error('is empty.');
  return value;
};

export const oneOfValues =
  <const T extends string>(...values: T[]) =>
  (value: string): T => {
    const found = values.find((candidate) => candidate === value);
    if (found === undefined) throw new Error(`is "${value}", and can be ${values.join(' or ')}.`);
    return found;
  };

export const flag = (value: string): boolean => {
  if (['true', '1', 'yes', 'on'].includes(value)) return true;
  if (['false', '0', 'no', 'off', ''].includes(value)) return false;
  throw new Error(`is "${value}", and can be true or false.`);
};

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, min: 60_000, h: 3_600_000 };

/** What PostgreSQL's timeouts and the timers of Node can hold: 2^31 - 1 ms. */
const MAX_DURATION_MS = 2_147_483_647;

/** `500ms`, `5s`, `1.5m`, `2h` in milliseconds. */
export function parseDuration(value: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*(ms|s|m|min|h)$/.exec(value.trim());
  const unit = UNITS[match?.[2] ?? ''];
  if (!match || unit === undefined)
    throw new Error(`is "${value}", and is written like 500ms, 5s, 2m or 1h.`);
  const milliseconds = Math.round(Number(match[1]) * unit);
  if (milliseconds > MAX_DURATION_MS) throw new Error(`is "${value}", and can be at most 596h.`);
  return milliseconds;
}

const DAY_MS = 86_400_000;

/** How long something lies there: as parseDuration(), which timers limit, or in days, which nothing waits for: `7d`. */
export function parseAge(value: string): number {
  const days = /^(\d{1,5}(?:\.\d+)?)\s*d$/.exec(value.trim());
  if (days) return Math.round(Number(days[1]) * DAY_MS);
  try {
    return parseDuration(value);
  } catch {
    throw new Error(`is "${value}", and is written like 30m, 12h or 7d.`);
  }
}

const SIZES: Record<string, number> = { kB: 2 ** 10, MB: 2 ** 20, GB: 2 ** 30, TB: 2 ** 40 };

/** `500MB`, `1.5 GB` in bytes, with PostgreSQL's units. */
export function parseSize(value: string): number {
  const match = /^(\d+(?:\.\d+)?)\s*([kMGT]B)$/.exec(value.trim());
  const unit = SIZES[match?.[2] ?? ''];
  if (!match || unit === undefined) throw new Error(`is "${value}", and is written like 500MB, 10GB or 2TB.`);
  return Math.round(Number(match[1]) * unit);
}

/** A number without a unit is seconds. */
export function parseSeconds(value: string): number {
  return parseDuration(/^\d+(\.\d+)?$/.test(value.trim()) ? `${value.trim()}s` : value);
}
