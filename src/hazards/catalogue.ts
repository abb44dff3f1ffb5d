import type { HazardRecord } from './hazard-definition.ts';
import { ACCESS } from './kinds/access.ts';
import { AFTERMATH } from './kinds/aftermath.ts';
import { APPLICATION } from './kinds/application.ts';
import { BEHAVIOUR } from './kinds/behaviour.ts';
import { BEYOND_DATABASE } from './kinds/beyond.ts';
import { BUILDS } from './kinds/builds.ts';
import { CASCADES } from './kinds/cascade.ts';
import { FAILURES } from './kinds/failures.ts';
import { FOREIGN_KEYS } from './kinds/foreign-keys.ts';
import { INTEGRITY } from './kinds/integrity.ts';
import { LEFTOVERS } from './kinds/leftovers.ts';
import { LOCKING } from './kinds/locking.ts';
import { LONG_NAMES } from './kinds/long-names.ts';
import { LOSSES } from './kinds/losses.ts';
import { OBJECTS } from './kinds/named-objects.ts';
import { QUERIES } from './kinds/queries.ts';
import { REPEATABILITY } from './kinds/repeatability.ts';
import { REPLICATION } from './kinds/replication.ts';
import { REWRITES } from './kinds/rewrites.ts';
import { SCANS } from './kinds/scans.ts';
import { TRANSACTIONS } from './kinds/transactions.ts';
import { UNEXPLAINED } from './kinds/unexplained.ts';

/** All hazards that are found in the facts: blocking, rewrites, losses, failures, and changes that break running code. */
export const CATALOGUE: readonly HazardRecord[] = [
  ...BUILDS,
  ...SCANS,
  ...LOCKING,
  ...FOREIGN_KEYS,
  ...REWRITES,
  ...TRANSACTIONS,
  ...UNEXPLAINED,
  ...LOSSES,
  ...CASCADES,
  ...FAILURES,
  ...INTEGRITY,
  ...LEFTOVERS,
  ...APPLICATION,
  ...OBJECTS,
  ...BEHAVIOUR,
  ...LONG_NAMES,
  ...AFTERMATH,
  ...REPLICATION,
  ...ACCESS,
  ...BEYOND_DATABASE,
  ...QUERIES,
  ...REPEATABILITY,
];
