import { formatRate } from '../../format.ts';
import { callRate, isSeldom, planCost, queryExcerpt } from '../../hazards/kinds/queries.ts';
import { FIRST_USER_OID } from '../../postgres/catalogue/user-objects.ts';
import type { ObstacleRule } from './obstacle-rule.ts';

/** Names of relations, columns and functions that are no reserved words yet, with one place for each. */
const NAMES = `
SELECT name || '|' || current_database() || ': ' || min(place) AS object, NULL AS sql FROM (
  SELECT attname::text AS name, attrelid::regclass || '.' || attname AS place FROM pg_attribute
   WHERE attrelid >= ${FIRST_USER_OID} AND attnum > 0 AND NOT attisdropped
  UNION ALL SELECT relname, oid::regclass::text FROM pg_class WHERE oid >= ${FIRST_USER_OID} AND relkind IN ('r', 'p', 'v', 'm', 'f')
  UNION ALL SELECT proname, oid::regproc::text FROM pg_proc WHERE oid >= ${FIRST_USER_OID}) AS named
 WHERE name ~ '^[a-z_]+$' AND name NOT IN (SELECT word FROM pg_get_keywords() WHERE catcode IN ('R', 'T'))
 GROUP BY name ORDER BY 1`;

/** How the application fares on the new version. */
export const APPLICATION_EFFECTS: readonly ObstacleRule[] = [
  {
    code: 'QUERY_BREAKS',
    severity: 'error',
    message: 'queries of the application work on the old version and fail on the new one',
    remedy: 'release an application that does not send them before the upgrade',
    rate: ({ application }) => (isSeldom(application?.queries?.broken ?? []) ? 'warning' : 'error'),
    find: ({ application }) =>
      (application?.queries?.broken ?? []).map(({ sql, callsPerSecond, error }) => ({
        object: `${queryExcerpt(sql)} (${callRate(callsPerSecond)}${error.sqlstate}: ${error.message})`,
      })),
  },
  {
    code: 'CHECK_DIFFERS',
    severity: 'error',
    message: 'your checks do not return the same rows on both versions',
    remedy: 'find out why before the upgrade: values that sort or print differently, a function that changed',
    find: ({ application }) =>
      (application?.checks ?? [])
        .filter(({ passed }) => !passed)
        .map(({ name, error, missing, added }) => ({
          object:
            error === null
              ? `${queryExcerpt(name)}: missing ${missing.join(', ') || 'none'}, added ${added.join(', ') || 'none'}`
              : `${queryExcerpt(name)}: ${error.message} (${error.when} the upgrade)`,
        })),
  },
  {
    code: 'QUERY_SLOWER',
    severity: 'warning',
    message: 'queries of the application get a plan that costs at least ten times as much',
    remedy: 'compare both plans with EXPLAIN: an index or statistics that the new plan lacks',
    find: ({ application }) =>
      (application?.queries?.slower ?? [])
        .filter(({ untilAnalyzed }) => untilAnalyzed === undefined)
        .map(({ sql, callsPerSecond, costBefore, costAfter, nodeBefore, nodeAfter }) => ({
          object: `${queryExcerpt(sql)} (${callRate(callsPerSecond)}cost ${planCost(costBefore)} → ${planCost(costAfter)}${
            nodeBefore === null ? '' : `, ${nodeBefore} → ${nodeAfter}`
          })`,
        })),
  },
  {
    code: 'RESULT_CHANGES',
    severity: 'warning',
    message: 'queries of the application return columns of other names or types on the new version',
    remedy: 'see whether the application can read them; cast or rename the columns in the query',
    find: ({ application }) =>
      (application?.queries?.changedRow ?? []).map(({ sql, callsPerSecond }) => ({
        object: `${queryExcerpt(sql)}${callsPerSecond === null ? '' : ` (${formatRate(callsPerSecond)})`}`,
      })),
  },
  {
    code: 'SCHEMA_DIFFERS',
    severity: 'warning',
    message: 'the schema is not the same after the upgrade',
    remedy: 'see whether the difference is one that the new version makes',
    find: ({ application }) => [
      ...(application?.schemaChanges ?? []).map(({ verb, kind, object }) => ({
        object: `${verb} ${kind} ${object}`,
      })),
      ...(application?.unmodeled ?? []).map(({ kind, detail }) => ({ object: `${kind}: ${detail}` })),
    ],
  },
  {
    code: 'RESERVED_WORD',
    severity: 'warning',
    message:
      'names are reserved words in the new version, where they mean something else unless they are quoted',
    remedy: 'quote them in all queries and functions, or rename them',
    query: { of: 'each database', sql: NAMES },
    find: ({ rows, installed }) =>
      (rows.get('RESERVED_WORD') ?? []).flatMap(({ object }) => {
        const [name = '', ...place] = object.split('|');
        return installed.reserved.has(name) ? [{ object: place.join('|') }] : [];
      }),
  },
];
