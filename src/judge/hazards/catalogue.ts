import { ACCESS } from './access.ts';
import { APPLICATION } from './application.ts';
import { BUILDS } from './builds.ts';
import { FAILURES } from './failures.ts';
import { FOREIGN_KEYS } from './foreign-keys.ts';
import { LEFTOVERS } from './leftovers.ts';
import { LOCKING } from './locking.ts';
import { LOSSES } from './losses.ts';
import { QUERIES } from './queries.ts';
import type { HazardRecord } from './record.ts';
import { REWRITES } from './rewrites.ts';
import { SCANS } from './scans.ts';
import { TRANSACTIONS } from './transactions.ts';
import { UNEXPLAINED } from './unexplained.ts';

/** Every hazard there is: what blocks, what is rewritten, what is lost, what fails, and what breaks the running code. */
export const CATALOGUE: readonly HazardRecord[] = [
  ...BUILDS,
  ...SCANS,
  ...LOCKING,
  ...FOREIGN_KEYS,
  ...REWRITES,
  ...TRANSACTIONS,
  ...UNEXPLAINED,
  ...LOSSES,
  ...FAILURES,
  ...LEFTOVERS,
  ...APPLICATION,
  ...ACCESS,
  ...QUERIES,
];
