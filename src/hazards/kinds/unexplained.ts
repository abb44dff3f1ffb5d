import { longestMs } from '../../model/repeated.ts';
import type { StatementSection } from '../../model/report.ts';
import { locksEvidence } from '../evidence.ts';
import type { HazardContext, StatementLock } from '../hazard-context.ts';
import type { HazardRecord } from '../hazard-definition.ts';
import { weighLock } from '../severity.ts';
import { REPORTED_FROM_MS } from '../thresholds.ts';
import { BUILDS } from './builds.ts';
import { FOREIGN_KEYS } from './foreign-keys.ts';
import { LOCKING } from './locking.ts';
import { REWRITES } from './rewrites.ts';
import { SCANS } from './scans.ts';

const EXPLAINING: readonly HazardRecord[] = [...BUILDS, ...SCANS, ...LOCKING, ...REWRITES, ...FOREIGN_KEYS];

/** Measured locks that no other hazard explains. */
export const UNEXPLAINED: readonly HazardRecord[] = [
  {
    code: 'STRONG_LOCK_HELD',
    title: 'a statement blocks others for a long time',
    condition: `A statement takes a lock that blocks reads or writes and runs for ${REPORTED_FROM_MS} ms or more, and no other hazard explains it: a DO block, a function, a change of type that rebuilds indexes.`,
    effect: 'Everybody who comes in the meantime waits, and occupies a connection.',
    safer: 'Find out what takes the time, and do it before the lock, after it, or in separate statements.',
    find: (context) => {
      const explained = new Set(
        EXPLAINING.flatMap(({ find }) => find(context)).map(({ statement }) => statement),
      );
      return context.facts.statements
        .filter((each) => longestMs(each) >= REPORTED_FROM_MS && !explained.has(each.index))
        .flatMap((statement) =>
          heldForLong(context, statement).map((lock) => ({
            statement: statement.index,
            relation: lock.relation,
            severity: weighLock(context, lock),
            message: `${statement.tag ?? 'a statement'} blocks others on ${lock.relation}`,
            evidence: locksEvidence(context, [lock]),
            advice: 'Split it into separate statements, and run the long ones without the lock.',
          })),
        );
    },
  },
];

/** Not those that a procedure released soon: they were seen for a moment, or never. */
function heldForLong(context: HazardContext, statement: StatementSection): StatementLock[] {
  const unseen = (statement.locks ?? []).filter(
    ({ byRule, heldMs }) => byRule && heldMs !== null && heldMs < statement.durationMs,
  );
  return context
    .taken(statement, 'writes')
    .filter(
      ({ relation, mode, heldMs }) =>
        (heldMs === null || heldMs >= REPORTED_FROM_MS) &&
        !unseen.some((lock) => lock.relation === relation && lock.mode === mode),
    );
}
