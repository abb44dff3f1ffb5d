import type { Hazard } from '../model/report.ts';

/** Options, as a person would type them, that allow what was refused: every refusal names its way out. */

export function acceptFlag({ code, relation }: Pick<Hazard, 'code' | 'relation'>): string {
  const what = relation === null ? code : `${code}:${relation}`;
  return `--accept ${quoted(`${what}="…"`)}`;
}

export function lockFlag(relation: string, mode: string, heldMs: number): string {
  return `--limit ${quoted(`lock=${relation}:${mode}=${durationAtLeast(heldMs)}`)}`;
}

export function durationFlag(durationMs: number): string {
  return `--limit duration=${durationAtLeast(durationMs)}`;
}

export function sizeFlag(name: 'wal' | 'disk', bytes: number): string {
  return `--limit ${name}=${sizeAtLeast(bytes)}`;
}

/** Quotes a value for a POSIX shell. */
function quoted(value: string): string {
  return `'${value.replaceAll("'", "'\\''")}'`;
}

const SECOND = 1000;
const MINUTE = 60 * SECOND;

/** A duration as options have it, rounded up to two significant digits. */
function durationAtLeast(durationMs: number): string {
  if (durationMs <= SECOND) return `${roundedUp(durationMs)}ms`;
  if (durationMs <= 2 * MINUTE) return `${roundedUp(durationMs / SECOND)}s`;
  return `${roundedUp(durationMs / MINUTE)}m`;
}

const SIZES = ['kB', 'MB', 'GB', 'TB'];

function sizeAtLeast(bytes: number): string {
  let value = bytes / 1024;
  let unit = 0;
  while (value > 1024 && unit < SIZES.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${roundedUp(value)}${SIZES[unit]}`;
}

function roundedUp(value: number): number {
  const step = value > 100 ? 10 : 1;
  return Math.max(1, Math.ceil(value / step) * step);
}
