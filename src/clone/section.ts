import type { CloneSection, Limit } from '../report/model.ts';
import type { Clone } from './method.ts';

/** The report's clone section. @param sizeBytes after the command; null where it was not read. */
export function cloneSection(
  clone: Clone,
  sizeBytes: number | null,
  kept: boolean,
): { clone: CloneSection; limits: Limit[] } {
  const { method, strategy, isolation, database, durationMs, reason, notCarried } = clone;
  const limits: Limit[] = notCarried.map(({ property, reason }) => ({
    path: 'clone',
    kind: 'unmeasured',
    reason: `the clone lacks the target's ${property}: ${reason}`,
  }));
  limits.push({
    path: 'clone.uniqueBytes',
    kind: 'unmeasured',
    reason: 'the server does not tell how many blocks a database inside it shares with another',
  });
  return {
    clone: { method, strategy, isolation, database, durationMs, sizeBytes, uniqueBytes: null, reason, kept },
    limits,
  };
}
