import { formatDuration } from '../../format.ts';
import type { TargetClusterFacts } from '../target-cluster.ts';
import type { Found, ObstacleRule, UpgradeFacts } from './obstacle-rule.ts';

/** State that pg_upgrade does not carry over. */
export const LOST_STATE: readonly ObstacleRule[] = [
  {
    code: 'SLOT_LOST',
    severity: 'warning',
    message:
      'logical replication slots are not carried over: what they would have sent is lost to their subscribers',
    remedy: 'let the subscribers catch up, stop them, and create slots and subscriptions again afterwards',
    when: (from) => from < 17,
    find: ({ target }) => slotsOf(target, 'logical'),
  },
  {
    code: 'SLOT_MUST_BE_READ',
    severity: 'warning',
    message:
      'pg_upgrade carries logical slots over only if all of their WAL was consumed, and refuses the cluster otherwise',
    remedy: 'stop the writers and let the subscribers catch up before the server is shut down',
    when: (from) => from >= 17,
    find: ({ target }) => slotsOf(target, 'logical'),
  },
  {
    code: 'PHYSICAL_SLOT_LOST',
    severity: 'notice',
    message: 'physical replication slots are not carried over',
    remedy: 'create them again for the standbys that are rebuilt',
    find: ({ target }) => slotsOf(target, 'physical'),
  },
  {
    code: 'STANDBY',
    severity: 'warning',
    message: 'standbys cannot follow the upgraded server',
    remedy: 'rebuild them, or bring them over by rsync as the documentation of pg_upgrade says',
    find: ({ target }) => target.standbys.map((object) => ({ object })),
  },
  {
    code: 'SUBSCRIPTION_STATE',
    severity: 'warning',
    message: 'subscriptions lose which tables and positions they had reached',
    remedy: 'disable them before, and create them again without copying the data afterwards',
    when: (from) => from < 17,
    query: {
      of: 'cluster',
      sql: `SELECT d.datname || ': ' || s.subname AS object, format('ALTER SUBSCRIPTION %I DISABLE;', s.subname) AS sql
  FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid ORDER BY 1`,
    },
  },
  {
    code: 'STATISTICS_LOST',
    severity: 'notice',
    message: 'the planner has no statistics until vacuumdb has made them',
    remedy: 'run vacuumdb --all --analyze-in-stages as soon as the new server works',
    when: (_, to) => to < 18,
    find: ({ modes }) => [{ object: `all databases, for ${statisticsWords(modes)}` }],
  },
  {
    code: 'EXTENDED_STATISTICS_LOST',
    severity: 'notice',
    message: 'extended statistics are not carried over',
    remedy: 'run vacuumdb --all --analyze-in-stages --missing-stats-only as soon as the new server works',
    when: (_, to) => to === 18,
    query: {
      of: 'each database',
      sql: `SELECT current_database() || ': ' || stxname AS object, format('ANALYZE %s;', stxrelid::regclass) AS sql FROM pg_statistic_ext ORDER BY 1`,
    },
  },
];

/** How long the planner's statistics are missing: until the first stage of vacuumdb, and until all of them are there. */
function statisticsWords(modes: UpgradeFacts['modes']): string {
  const phases = modes.find(({ outcome }) => outcome === 'passed')?.phases ?? [];
  const of = (...names: string[]) =>
    phases.reduce((sum, { name, durationMs }) => sum + (names.includes(name) ? durationMs : 0), 0);
  if (phases.length === 0) return 'as long as that takes';
  return `${formatDuration(of('first statistics'))}, and less exact ones for ${formatDuration(of('statistics'))} more`;
}

function slotsOf({ slots }: TargetClusterFacts, type: string): Found[] {
  return slots
    .filter((slot) => slot.type === type)
    .map(({ name, database }) => ({ object: database === null ? name : `${name} (${database})` }));
}
