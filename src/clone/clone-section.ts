import type { RoleFacts } from '../database/target.ts';
import { listed } from '../format.ts';
import type { Caveat, CloneSection } from '../model/report.ts';
import type { Choice } from './choose.ts';
import type { Clone, Possible } from './method.ts';

/**
 * Builds the report's clone section.
 * @param sizeBytes size after the command; null if it was not read.
 * @param unique bytes that the clone shares with no other file.
 * @param role of the target's.
 */
export function describeClone(
  clone: Clone,
  choice: Pick<Choice, 'considered'>,
  sizeBytes: number | null,
  unique: Awaited<ReturnType<Clone['uniqueBytes']>>,
  kept: boolean,
  role: RoleFacts,
): { clone: CloneSection; caveats: Caveat[] } {
  const { method, strategy, isolation, containment, database, durationMs, reason, notCarried } = clone;
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
      method,
      strategy,
      isolation,
      containment,
      database,
      durationMs,
      sizeBytes,
      uniqueBytes,
      reason,
      kept,
      service: clone.service ?? null,
      exposure: containment === 'target-server' ? exposureOf(role) : null,
      considered: choice.considered.map(({ method: { id }, assessment }) => ({
        method: id,
        possible: assessment.possible,
        reason: assessment.reason,
      })),
    },
    caveats: [...clone.caveats, ...caveats],
  };
}

/** Says beforehand of which commands a clone in the target's server gives no proof; null if the role could do nothing unseen. */
export function unprovedBeforehand(
  { containment }: Pick<Possible, 'containment'>,
  role: RoleFacts,
): string | null {
  return containment === 'target-server' && exposureOf(role) !== null
    ? "after code whose effect on the target's server is not known, it cannot be verified that the target is unchanged; a clone in a private server gives the proof"
    : null;
}

/** Describes what a role could do on the target's server in a function, where no gate sees it; null if nothing. */
export function exposureOf({
  name,
  superuser,
  runsPrograms,
  readsFiles,
  writesFiles,
  maySignal,
}: RoleFacts): string | null {
  const rights = [
    ...(superuser ? ['change roles and settings'] : []),
    ...(runsPrograms ? ['run programs'] : []),
    ...(readsFiles ? ['read files'] : []),
    ...(writesFiles ? ['write files'] : []),
    ...(maySignal ? ['end sessions'] : []),
  ];
  if (rights.length === 0) return null;
  return `statements that reach beyond it are refused, but within a function the role ${name} could ${listed(rights)} there`;
}
