import type { HazardFacts } from '../model/hazard-facts.ts';
import type { Hazard } from '../model/report.ts';
import { APP_HAZARDS } from './app-hazards.ts';
import { EXIT_CODE_CHECKS } from './exit-code-checks.ts';
import { HazardContext } from './hazard-context.ts';
import type { HazardRecord, HazardTexts } from './hazard-definition.ts';
import { ACCESS } from './kinds/access.ts';
import { AFTERMATH } from './kinds/aftermath.ts';
import { APPLICATION } from './kinds/application.ts';
import { BEHAVIOUR } from './kinds/behaviour.ts';
import { BUILDS } from './kinds/builds.ts';
import { CASCADES } from './kinds/cascade.ts';
import { CATALOGUE_WRITES } from './kinds/catalogue-writes.ts';
import { ENUM_TYPES } from './kinds/enum-types.ts';
import { FAILURES } from './kinds/failures.ts';
import { FOREIGN_KEYS } from './kinds/foreign-keys.ts';
import { SETTINGS } from './kinds/lasting-settings.ts';
import { INTEGRITY, LEFTOVERS } from './kinds/leftovers.ts';
import { LOCK_TIMEOUTS } from './kinds/lock-timeouts.ts';
import { LOCKING, UNEXPLAINED } from './kinds/locking.ts';
import { LONG_NAMES } from './kinds/long-names.ts';
import { LOSSES } from './kinds/losses.ts';
import { MAINTENANCE } from './kinds/maintenance.ts';
import { OBJECTS } from './kinds/named-objects.ts';
import { PARTITION_GAPS } from './kinds/partition-gaps.ts';
import { QUERIES } from './kinds/queries.ts';
import { REDEFINED } from './kinds/redefined.ts';
import { REPEATABILITY } from './kinds/repeatability.ts';
import { BEYOND_DATABASE, REPLICATION } from './kinds/replication.ts';
import { REWRITES } from './kinds/rewrites.ts';
import { ROW_LOSSES } from './kinds/row-losses.ts';
import { SCANS } from './kinds/scans.ts';
import { SHORT_SEQUENCES } from './kinds/short-sequences.ts';
import { STATEMENT_TIMEOUTS } from './kinds/statement-timeouts.ts';
import { TRANSACTIONS } from './kinds/transactions.ts';
import { TRIED, withProbes } from './kinds/tried.ts';
import { WITHOUT_EFFECT } from './kinds/without-effect.ts';
import { LOAD_HAZARDS } from './load-hazards.ts';
import { DISK_HAZARDS, TRAFFIC_HAZARDS } from './traffic-hazards.ts';

/** All hazards that are found in the facts: blocking, rewrites, losses, failures, and changes that break running code. */
export const CATALOGUE: readonly HazardRecord[] = [
  ...BUILDS,
  ...SCANS,
  ...LOCKING,
  ...FOREIGN_KEYS,
  ...REWRITES,
  ...LOCK_TIMEOUTS,
  ...STATEMENT_TIMEOUTS,
  ...TRANSACTIONS,
  ...UNEXPLAINED,
  ...LOSSES,
  ...ROW_LOSSES,
  ...CASCADES,
  ...FAILURES,
  ...INTEGRITY,
  ...CATALOGUE_WRITES,
  ...LEFTOVERS,
  ...APPLICATION,
  ...OBJECTS,
  ...ENUM_TYPES,
  ...BEHAVIOUR,
  ...LONG_NAMES,
  ...AFTERMATH,
  ...MAINTENANCE,
  ...REPLICATION,
  ...ACCESS,
  ...WITHOUT_EFFECT,
  ...BEYOND_DATABASE,
  ...QUERIES,
  ...REPEATABILITY,
  ...REDEFINED,
  ...SETTINGS,
  ...PARTITION_GAPS,
  ...SHORT_SEQUENCES,
  ...TRIED,
];

const SEVERITIES: readonly Hazard['severity'][] = ['error', 'warning', 'notice'];

/** Finds the hazards of the command for production, the most severe first. None is allowed yet: the policy does that. */
export function findHazards(facts: HazardFacts): Hazard[] {
  const context = new HazardContext(facts);
  const found = [...CATALOGUE, ...TRAFFIC_HAZARDS].flatMap(({ code, find }) =>
    find(context).map((finding) => ({ code, ...finding })),
  );
  return withProbes(context, found)
    .map((finding): Hazard => ({ ...finding, allowed: false }))
    .sort(
      (a, b) =>
        SEVERITIES.indexOf(a.severity) - SEVERITIES.indexOf(b.severity) ||
        (a.statement ?? Number.POSITIVE_INFINITY) - (b.statement ?? Number.POSITIVE_INFINITY) ||
        0,
    );
}

/** All hazards that a report may contain: of the catalogue, the target's traffic, the exit code, the disk, the load, and the application's checks. */
export const KNOWN_HAZARDS: readonly HazardTexts[] = [
  ...CATALOGUE,
  ...TRAFFIC_HAZARDS,
  ...EXIT_CODE_CHECKS,
  ...DISK_HAZARDS,
  ...LOAD_HAZARDS,
  ...APP_HAZARDS,
];

/** Codes of hazards that sessions feel while the command runs. A swap exists to avoid them: it is judged by what is lost, what fails, and its limit. */
export const NOT_FELT_IN_SWAP: readonly string[] = [
  ...[BUILDS, SCANS, LOCKING, REWRITES, LOCK_TIMEOUTS, TRANSACTIONS, UNEXPLAINED]
    .flat()
    .map(({ code }) => code),
  ...['DROP_TABLE_LOCKS_REFERENCED', 'FOREIGN_KEY_VALIDATED_AT_ONCE', 'ROW_CONFLICTS', 'DEADLOCK_RISK'],
  ...['DEADLOCK', 'TRAFFIC_BLOCKED'],
];
