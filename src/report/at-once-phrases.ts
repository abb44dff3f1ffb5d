import { formatDuration, plural } from '../format.ts';
import type { AtOnceSection } from '../model/report.ts';

/** What runs that were started together came to, a sentence each. */
export function atOnceWords({ runs, deadlocks, schemaEqual, dataDifferences }: AtOnceSection): string[] {
  const failed = runs.filter(({ exitCode }) => exitCode !== 0);
  const longest = Math.max(0, ...runs.map(({ durationMs }) => durationMs));
  return [
    failed.length === 0
      ? `all ${runs.length} succeeded, the last after ${formatDuration(longest)}`
      : `${failed.length} of ${runs.length} failed (${failed.map(({ exitCode, signal }) => signal ?? `exit code ${exitCode}`).join(', ')})`,
    ...(deadlocks > 0 ? [plural(deadlocks, 'deadlock')] : []),
    ...(schemaEqual === false ? ['they leave another schema than one run'] : []),
    ...dataDifferences.map(
      ({ relation, what, bookkeeping }) =>
        `${relation}: ${what}${bookkeeping ? " (the migration tool's own table)" : ''}`,
    ),
  ];
}
