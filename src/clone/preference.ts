import { formatBytes } from '../format.ts';
import type { Assessment, Possible } from './method.ts';
import type { MethodId } from './method-id.ts';

/** The facts of an assessed method that decide its rank. */
export interface Assessed {
  readonly method: { readonly id: MethodId };
  readonly assessment: Assessment;
}

/**
 * Sorts methods by preference: first those that the user has configured, then those that end no session on the target, then
 * those that are ready soonest; impossible ones come last. A sandboxed one may be ready later than others: by a second if it
 * copies bytes, by a minute if it shares all blocks with the target and so costs nothing but this time.
 */
export function byPreference<T extends Assessed>(found: readonly T[]): T[] {
  return [...found].sort((one, other) => compare(one.assessment, other.assessment));
}

function compare(one: Assessment, other: Assessment): number {
  if (!one.possible || !other.possible) return Number(other.possible) - Number(one.possible);
  return (
    Number(other.asked ?? false) - Number(one.asked ?? false) ||
    Number(one.endsSessions) - Number(other.endsSessions) ||
    rankedMs(one) - rankedMs(other)
  );
}

/** Nothing that a command does in a sandbox can reach the target: that is worth some waiting. */
const SANDBOX_WORTH_MS = { copied: 1_000, shared: 60_000 } as const;

function rankedMs({ readyMs, containment, bytes }: Possible): number {
  if (containment !== 'sandbox') return readyMs;
  return readyMs - SANDBOX_WORTH_MS[bytes === 0 ? 'shared' : 'copied'];
}

/** Refuses a full copy above --max-copy, which a user should decide on. */
export function withinLimit(assessment: Assessment, id: MethodId, maxCopyBytes: number): Assessment {
  if (!assessment.possible || assessment.bytes <= maxCopyBytes) return assessment;
  const size = formatBytes(assessment.bytes);
  return {
    possible: false,
    reason: `${size} would be copied in full (${assessment.strategy}), and --max-copy is ${formatBytes(maxCopyBytes)}`,
    enable: `--clone ${id}, or --max-copy above ${size}`,
  };
}
