/** Numbers as people read them. All of them are pure; null ("could not be measured") is the caller's business. */

const SIZE_UNITS = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'];

/** Bytes with the unit names of pg_size_pretty: a kB is 1024 bytes. */
export function formatBytes(bytes: number): string {
  let value = Math.abs(bytes);
  let unit = 0;
  while (roundedSize(value, unit) >= 1024 && unit < SIZE_UNITS.length - 1) {
    value /= 1024;
    unit += 1;
  }
  const sign = bytes < 0 ? '-' : '';
  const number = roundedSize(value, unit);
  const name = unit === 0 && number === 1 ? 'byte' : SIZE_UNITS[unit];
  return `${sign}${Number.isInteger(number) ? formatCount(number) : number} ${name}`;
}

/** One decimal below 10, where it says something. */
function roundedSize(value: number, unit: number): number {
  return unit > 0 && value < 9.95 ? Math.round(value * 10) / 10 : Math.round(value);
}

export function formatBytesDelta(bytes: number): string {
  if (bytes === 0) return 'no change';
  return bytes > 0 ? `+${formatBytes(bytes)}` : formatBytes(bytes);
}

/** `: memory ran out …`, for a command that was killed; empty if the kernel ended nothing. */
export function memoryWords({
  endedForMemory = 0,
}: {
  readonly endedForMemory?: number | undefined;
}): string {
  if (endedForMemory === 0) return '';
  return `: memory ran out; meanwhile the kernel ended ${plural(endedForMemory, 'process', 'processes')} of this machine for that`;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Milliseconds with the two largest units that matter. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds === 0) return '0 ms';
  if (milliseconds < 0.05) return '<0.1 ms';
  if (milliseconds < 9.95) return `${milliseconds.toFixed(1)} ms`;
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  if (milliseconds < 59.95 * SECOND) return `${(milliseconds / SECOND).toFixed(1)} s`;
  const seconds = Math.round(milliseconds / SECOND) * SECOND;
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min ${(seconds % MINUTE) / SECOND} s`;
  const minutes = Math.round(milliseconds / MINUTE) * MINUTE;
  if (minutes < DAY) return `${Math.floor(minutes / HOUR)} h ${(minutes % HOUR) / MINUTE} min`;
  const hours = Math.round(milliseconds / HOUR) * HOUR;
  return `${formatCount(Math.floor(hours / DAY))} d ${(hours % DAY) / HOUR} h`;
}

const INTERVAL_UNITS: readonly (readonly [unit: string, milliseconds: number])[] = [
  ['h', HOUR],
  ['min', MINUTE],
  ['s', SECOND],
  ['ms', 1],
];

/** An estimate in milliseconds with its limits, in the unit of the upper one: `≈ 40–70 s`, `≈ 0.5–2 min`. */
export function formatInterval({ lowMs, highMs }: { lowMs: number; highMs: number }): string {
  const [unit, size] = INTERVAL_UNITS.find(([, each]) => highMs >= each * 2) ?? (['ms', 1] as const);
  const [low, high] = [lowMs, highMs].map((each) => formatNumber(each / size));
  return low === high ? `≈ ${high} ${unit}` : `≈ ${low}–${high} ${unit}`;
}

/** With two digits that matter. */
function formatNumber(value: number): string {
  return value >= 100 ? formatCount(Math.round(value)) : String(Number(value.toPrecision(2)));
}

/** An ISO time in UTC, to the minute: `2026-11-28 16:00 UTC`. */
export function formatTime(iso: string): string {
  return `${iso.slice(0, 16).replace('T', ' ')} UTC`;
}

export function formatCount(count: number): string {
  return String(count).replace(/\B(?=(\d{3})+$)/g, ',');
}

/** `66,473`, or of an estimate, with the two digits that matter: `about 66,000`. */
export function formatEstimate(count: number, exact: boolean): string {
  return exact ? formatCount(count) : `about ${formatCount(twoDigits(count))}`;
}

/** An estimate is off by some percent: more digits would look like a count. */
export function twoDigits(count: number): number {
  return count < 100 ? count : Number(count.toPrecision(2));
}

/** `1 change`, `5,000 changes`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${formatCount(count)} ${count === 1 ? one : many}`;
}

/** The first items, and how many others there are: `a, b, and 1,200 more`. */
export function listed(
  items: readonly string[],
  { atMost = 5, separator = ', ' }: { readonly atMost?: number; readonly separator?: string } = {},
): string {
  const others = items.length - atMost;
  const shown = items.slice(0, atMost).join(separator);
  return others > 0 ? `${shown}${separator}and ${formatCount(others)} more` : shown;
}

/** Two digits that matter: `120 calls/s`, `0.014 calls/s`. */
export function formatRate(callsPerSecond: number): string {
  if (callsPerSecond < 0.001) return '<0.001 calls/s';
  const number =
    callsPerSecond >= 10
      ? formatCount(Math.round(callsPerSecond))
      : String(Number(callsPerSecond.toPrecision(2)));
  return `${number} calls/s`;
}
