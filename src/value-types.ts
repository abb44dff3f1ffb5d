/** How the values of an option are written and read; `format` writes a value as `parse` reads it. */
export interface ValueType<T> {
  /** @throws Error with what is wrong with the text, as the end of a sentence. */
  parse(text: string): T;
  format(value: T): string;
  /** Reads what a config file holds as an object. @throws Error with what is wrong with it. */
  parseObject?(value: Readonly<Record<string, unknown>>): T;
  readonly repeatable?: boolean;
}

export const TEXT: ValueType<string> = {
  parse: (text) => {
    if (text === '') throw new Error('is empty.');
    return text;
  },
  format: (value) => value,
};

/** An option without an argument. */
export const SWITCH: ValueType<boolean> = {
  parse: (text) => {
    if (['true', '1', 'yes', 'on'].includes(text)) return true;
    if (['false', '0', 'no', 'off', ''].includes(text)) return false;
    throw new Error(`is "${text}", and can be true or false.`);
  },
  format: String,
};

export const COUNT: ValueType<number> = {
  parse: (text) => {
    if (!/^\d{1,9}$/.test(text.trim())) throw new Error(`is "${text}", and must be a whole number.`);
    return Number(text);
  },
  format: String,
};

/** A number above 0, such as 0.5. */
export const FACTOR: ValueType<number> = {
  parse: (text) => {
    if (!/^\d{1,9}(\.\d{1,6})?$/.test(text.trim()) || Number(text) <= 0)
      throw new Error(`is "${text}", and must be a number above 0.`);
    return Number(text);
  },
  format: String,
};

export function choiceOf<const T extends string>(...values: T[]): ValueType<T> {
  return {
    parse: (text) => {
      const found = values.find((value) => value === text);
      if (found === undefined) throw new Error(`is "${text}", and can be ${values.join(' or ')}.`);
      return found;
    },
    format: (value) => value,
  };
}

/** An option that may be given several times. */
export function listOf<T>(type: ValueType<T>): ValueType<readonly T[]> {
  const { parseObject } = type;
  return {
    parse: (text) => [type.parse(text)],
    format: (values) => values.map((value) => type.format(value)).join(', '),
    repeatable: true,
    ...(parseObject && { parseObject: (value) => [parseObject(value)] }),
  };
}

const TIME_UNITS = { h: 3_600_000, m: 60_000, s: 1000, ms: 1 };
const SIZE_UNITS = { TB: 2 ** 40, GB: 2 ** 30, MB: 2 ** 20, kB: 2 ** 10 };

/** The timeouts of PostgreSQL and the timers of Node can hold 2^31 - 1 ms. */
const MAX_DURATION_MS = 2_147_483_647;
const DAY_MS = 86_400_000;

/** `500ms`, `5s`, `1.5m`, `2h`: milliseconds. */
export const DURATION: ValueType<number> = {
  parse: (text) => {
    const milliseconds = amount(text, { ...TIME_UNITS, min: TIME_UNITS.m });
    if (milliseconds === undefined) throw new Error(`is "${text}", and is written like 500ms, 5s, 2m or 1h.`);
    if (milliseconds > MAX_DURATION_MS) throw new Error(`is "${text}", and can be at most 596h.`);
    return milliseconds;
  },
  format: (milliseconds) => inLargestUnit(milliseconds, TIME_UNITS),
};

/** A duration; a number without a unit is seconds. */
export const SECONDS: ValueType<number> = {
  ...DURATION,
  parse: (text) => DURATION.parse(/^\d+(\.\d+)?$/.test(text.trim()) ? `${text.trim()}s` : text),
};

/** A duration, or `0` for no limit. */
export const TIME_LIMIT: ValueType<number> = {
  parse: (text) => (text.trim() === '0' ? 0 : DURATION.parse(text)),
  format: (milliseconds) => (milliseconds === 0 ? 'none' : DURATION.format(milliseconds)),
};

/** A duration, or days: `7d`. No timer waits for an age, so that it may be longer than a duration. */
export const AGE: ValueType<number> = {
  parse: (text) => {
    const days = /^(\d{1,5}(?:\.\d+)?)\s*d$/.exec(text.trim());
    if (days) return Math.round(Number(days[1]) * DAY_MS);
    try {
      return DURATION.parse(text);
    } catch {
      throw new Error(`is "${text}", and is written like 30m, 12h or 7d.`);
    }
  },
  format: (age) => (age % DAY_MS === 0 && age > 0 ? `${age / DAY_MS}d` : DURATION.format(age)),
};

/** A time with its zone, as PostgreSQL reads it, or `latest`. */
export const MOMENT: ValueType<string> = {
  parse: (text) => {
    const time = text.trim();
    if (time === 'latest') return time;
    const written = /^\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d(\.\d{1,6})?)? ?(Z|[+-]\d\d(:?\d\d)?)$/.test(time);
    if (!written) throw new Error(`is "${text}", and is written like 2026-11-22 10:00+00, or latest.`);
    return time;
  },
  format: (time) => time,
};

/** `500MB`, `1.5 GB`, with PostgreSQL's units: bytes. */
export const SIZE: ValueType<number> = {
  parse: (text) => {
    const bytes = amount(text, SIZE_UNITS);
    if (bytes === undefined) throw new Error(`is "${text}", and is written like 500MB, 10GB or 2TB.`);
    return bytes;
  },
  format: (bytes) => inLargestUnit(bytes, SIZE_UNITS),
};

function amount(text: string, units: Readonly<Record<string, number>>): number | undefined {
  const match = /^(\d+(?:\.\d+)?)\s*([a-zA-Z]+)$/.exec(text.trim());
  const unit = Object.entries(units).find(([name]) => name === match?.[2]);
  return unit && Math.round(Number(match?.[1]) * unit[1]);
}

/** @param units the largest first. */
function inLargestUnit(value: number, units: Readonly<Record<string, number>>): string {
  const [unit, size] = Object.entries(units).find(([, each]) => value % each === 0) ?? ['', 1];
  return `${value / size}${unit}`;
}
