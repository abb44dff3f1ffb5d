import type { Caveat, CloneSection } from '../model/report.ts';
import type { Choice } from './choose.ts';
import type { Clone } from './method.ts';

/**
 * Builds the report's clone section.
 * @param sizeBytes size after the command; null if it was not read.
 * @param unique bytes that the clone shares with no other file.
 */
export function describeClone(
  clone: Clone,
  choice: Pick<Choice, 'considered'>,
  sizeBytes: number | null,
  unique: Awaited<ReturnType<Clone['uniqueBytes']>>,
  kept: boolean,
): { clone: CloneSection; caveats: Caveat[] } {
  const { method, strategy, isolation, database, durationMs, reason, notCarried } = clone;
  const caveats: Caveat[] = notCarried.map(({ property, reason }) => ({
    path: 'clone',
    kind: 'unmeasured',
    reason: `the clone lacks the target's ${property}: ${reason}`,
  }));
  if (typeof unique === 'object')
    caveats.push({ path: 'clone.uniqueBytes', kind: 'unmeasured', reason: unique.unmeasured });
  const uniqueBytes = typeof unique === 'object' ? null : unique;
  return {
    clone: {
      ...{ method, strategy, isolation, database, durationMs, sizeBytes, uniqueBytes, reason, kept },
      considered: choice.considered.map(({ method: { id }, assessment }) => ({
        method: id,
        possible: assessment.possible,
        reason: assessment.reason,
      })),
    },
    caveats: [...clone.caveats, ...caveats],
  };
}
