import { formatBytes } from '../format.ts';
import type { Assessment } from './method.ts';
import type { MethodId } from './method-id.ts';

/** Of a method that was assessed, what decides about it. */
export interface Assessed {
  readonly method: { readonly id: MethodId };
  readonly assessment: Assessment;
}

/**
 * In the order in which they would be taken: what the user has set up for it comes first, then what leaves the target's
 * sessions alone, then what is ready soonest; what is not possible comes last.
 */
export function byPreference<T extends Assessed>(found: readonly T[]): T[] {
  return [...found].sort((one, other) => compare(one.assessment, other.assessment));
}

function compare(one: Assessment, other: Assessment): number {
  if (!one.possible || !other.possible) return Number(other.possible) - Number(one.possible);
  return (
    Number(other.asked ?? false) - Number(one.asked ?? false) ||
    Number(one.endsSessions) - Number(other.endsSessions) ||
    one.readyMs - other.readyMs
  );
}

/** Nobody wants to find out afterwards that a terabyte was copied. */
export function withinLimit(assessment: Assessment, id: MethodId, maxCopyBytes: number): Assessment {
  if (!assessment.possible || assessment.bytes <= maxCopyBytes) return assessment;
  const size = formatBytes(assessment.bytes);
  return {
    possible: false,
    reason: `${size} would be copied in full (${assessment.strategy}), and --max-copy is ${formatBytes(maxCopyBytes)}`,
    enable: `--clone ${id}, or --max-copy above ${size}`,
  };
}
