import { isUnmeasured, measuredOrReason } from '../../measured.ts';
import type { Caveat } from '../../model/report.ts';
import type { UpgradeObstacle } from '../../model/upgrade-model.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import type { OldFacts, RunningServer } from '../old-cluster.ts';
import { APPLICATION_EFFECTS } from './application-effects.ts';
import { CHANGED_SETTINGS } from './changed-settings.ts';
import { INSTALLED_PARTS } from './installed-parts.ts';
import { LOST_STATE } from './lost-state.ts';
import type { Found, ObstacleRule, UpgradeFacts } from './obstacle-rule.ts';
import { REFUSED_OBJECTS, REFUSED_OTHERWISE } from './refused-objects.ts';

/** Rows that the rules' queries returned, by the code of the rule, and caveats for those that failed. */
export interface RuleRows {
  readonly rows: ReadonlyMap<string, readonly Found[]>;
  readonly caveats: readonly Caveat[];
}

/**
 * Runs the queries of the rules in all databases of a server that can be entered.
 * @param again on the upgraded server: only those whose answer depends on its libraries.
 */
export async function readRuleRows(
  server: RunningServer,
  { databases }: Pick<OldFacts, 'databases'>,
  versions: Pick<UpgradeFacts, 'from' | 'to'>,
  again = false,
): Promise<RuleRows> {
  const rules = rulesFor(versions).filter(({ query }) => !again || query?.again);
  const rows = new Map<string, Found[]>();
  const caveats: Caveat[] = [];
  const ask = async (session: Session, of: 'each database' | 'cluster') => {
    for (const { code, query } of rules) {
      if (query?.of !== of) continue;
      const found = await measuredOrReason(() => session.query<Found>(query.sql));
      if (isUnmeasured(found))
        caveats.push({ path: 'obstacles', kind: 'unmeasured', reason: `${code}: ${found.unmeasured}` });
      else rows.set(code, [...(rows.get(code) ?? []), ...found]);
    }
  };
  await withSession(server.enter(server.connect.database), (session) => ask(session, 'cluster'));
  for (const { name, open } of databases)
    if (open) await withSession(server.enter(name), (session) => ask(session, 'each database'));
  return { rows, caveats };
}

function rulesFor({ from, to }: Pick<UpgradeFacts, 'from' | 'to'>): readonly ObstacleRule[] {
  return OBSTACLE_RULES.filter(({ when }) => when?.(from, to) ?? true);
}

/** Number of objects that are named; all are counted. */
const NAMED = 100;

/** Applies the rules to what is known. What pg_upgrade says of its refusal counts only if no other error explains it. */
export function findObstacles(facts: UpgradeFacts): UpgradeObstacle[] {
  const found = applyRules(facts);
  const others = found.filter(({ code }) => code !== REFUSED_OTHERWISE);
  return others.some(({ severity }) => severity === 'error') ? others : found;
}

/** Applies the rules. A list that pg_upgrade wrote counts if no query found the obstacle. */
function applyRules(facts: UpgradeFacts): UpgradeObstacle[] {
  return rulesFor(facts).flatMap((rule) => {
    const { code, severity, message, remedy, query, file, find } = rule;
    const own = find ? find(facts) : query ? (facts.rows.get(code) ?? []) : [];
    const listed = file === undefined ? [] : (facts.files.get(file) ?? []).map((object) => ({ object }));
    const found: readonly Found[] = own.length > 0 ? own : listed;
    if (found.length === 0) return [];
    return [
      {
        code,
        severity: rule.rate?.(facts) ?? severity,
        message,
        remedy,
        objects: found.slice(0, NAMED).map(({ object }) => object.trim()),
        count: found.length,
        sql: found.flatMap(({ sql }) => sql ?? []).slice(0, NAMED),
      },
    ];
  });
}

const ALL = [
  ...REFUSED_OBJECTS,
  ...INSTALLED_PARTS,
  ...APPLICATION_EFFECTS,
  ...LOST_STATE,
  ...CHANGED_SETTINGS,
];

/** Every obstacle that is known, the gravest first. */
export const OBSTACLE_RULES: readonly ObstacleRule[] = (['error', 'warning', 'notice'] as const).flatMap(
  (severity) => ALL.filter((rule) => rule.severity === severity),
);
