import { locksEvidence } from '../evidence.ts';
import type { HazardRecord } from '../hazard-definition.ts';
import { weighLock } from '../severity.ts';
import { TOLD_FROM_MS } from '../thresholds.ts';
import { BUILDS } from './builds.ts';
import { FOREIGN_KEYS } from './foreign-keys.ts';
import { LOCKING } from './locking.ts';
import { REWRITES } from './rewrites.ts';
import { SCANS } from './scans.ts';

const EXPLAINING: readonly HazardRecord[] = [...BUILDS, ...SCANS, ...LOCKING, ...REWRITES, ...FOREIGN_KEYS];

/** What was measured, and that no other hazard of locks says the reason of. */
export const UNEXPLAINED: readonly HazardRecord[] = [
  {
    code: 'STRONG_LOCK_HELD',
    title: 'a statement keeps others out for long',
    condition: `A statement takes a lock that keeps out reads or writes and runs for ${TOLD_FROM_MS} ms or more, and no other hazard says why: a DO block, a function, a type whose indexes are built again.`,
    effect: 'Everybody who comes meanwhile waits, and takes up a connection.',
    safer:
      'Find out what takes the time, and do it before the lock, after it, or in statements of their own.',
    find: (ground) => {
      const explained = new Set(
        EXPLAINING.flatMap(({ find }) => find(ground)).map(({ statement }) => statement),
      );
      return ground.facts.statements
        .filter(({ index, durationMs }) => durationMs >= TOLD_FROM_MS && !explained.has(index))
        .flatMap((statement) =>
          ground.taken(statement, 'writes').map((lock) => ({
            statement: statement.index,
            relation: lock.relation,
            severity: weighLock(ground, lock),
            message: `${statement.tag ?? 'a statement'} keeps others out of ${lock.relation}`,
            evidence: locksEvidence(ground, [lock]),
            advice: 'Do what it does in statements of their own, the long ones without the lock.',
          })),
        );
    },
  },
];
