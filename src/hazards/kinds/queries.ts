import { formatCount, formatRate, listed, plural } from '../../format.ts';
import type { QueriesSection } from '../../model/report.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';

/** Effects on queries of the running application. All queries share one finding; the report lists them. */
export const QUERIES: readonly HazardRecord[] = [
  {
    code: 'QUERY_BREAKS',
    title: 'a query of the running application no longer works',
    condition:
      'A query of pg_stat_statements or of a file (--queries) could be prepared (from PostgreSQL 16 on, planned) before the command but not after it; a warning if it is sent less than once an hour.',
    effect: 'The running application gets an error for it, from the commit until it is replaced.',
    safer:
      'First release an application that no longer sends the query, then drop or rename what it used; for a rename, keep the old name in the meantime (a view, a generated or a second column).',
    find: ({ facts: { queries } }) => (queries ? breaks(queries) : []),
  },
  {
    code: 'QUERY_SLOWER',
    title: 'an application query gets a more expensive plan',
    condition:
      'The cost of the generic plan of a query (--queries) is at least ten times its cost before the command (PostgreSQL 16 and newer).',
    effect: 'The query takes longer after the commit, and all its calls together load the server.',
    safer:
      'Build the index that the new plan lacks with CREATE INDEX CONCURRENTLY before the old one is dropped; ANALYZE rewritten tables.',
    find: ({ facts: { queries } }) => (queries ? slows(queries) : []),
  },
];

const SHOWN = { atMost: 3, separator: '; ' };
const SQL_CHARACTERS = 120;

/** A query that a person or a former migration sent once stays in the statistics for a long time. */
const SELDOM_PER_SECOND = 1 / 3600;

function breaks({ broken, ...section }: QueriesSection): Finding[] {
  if (broken.length === 0) return [];
  const seldom = broken.every(
    ({ callsPerSecond }) => callsPerSecond !== null && callsPerSecond < SELDOM_PER_SECOND,
  );
  const texts = broken.map(
    ({ sql, error, callsPerSecond }) =>
      `${excerpt(sql)} (${rate(callsPerSecond)}${error.sqlstate}: ${error.message})`,
  );
  const verb = broken.length === 1 ? 'no longer works' : 'no longer work';
  return [
    {
      statement: null,
      relation: null,
      severity: seldom ? 'warning' : 'error',
      message: `${plural(broken.length, 'query', 'queries')} of the running application ${verb}: ${listed(texts, SHOWN)}`,
      evidence: `prepared on the clone before and after the command; from ${origin(section)}`,
      advice:
        'Release an application that no longer sends it before this migration, or keep the old name until then.',
    },
  ];
}

function slows({ slower, ...section }: QueriesSection): Finding[] {
  if (slower.length === 0) return [];
  const texts = slower.map((query) => {
    const { sql, costBefore, costAfter, nodeBefore, nodeAfter, callsPerSecond } = query;
    const node = nodeBefore === null || nodeAfter === null ? '' : `, ${nodeBefore} → ${nodeAfter}`;
    return `${excerpt(sql)} (${rate(callsPerSecond)}cost ${cost(costBefore)} → ${cost(costAfter)}${node})`;
  });
  const verb = slower.length === 1 ? 'gets' : 'get';
  return [
    {
      statement: null,
      relation: null,
      severity: 'warning',
      message: `${plural(slower.length, 'query', 'queries')} of the running application ${verb} a more expensive plan: ${listed(texts, SHOWN)}`,
      evidence: `generic plans on the clone before and after the command; from ${origin(section)}`,
      advice: 'Build the index that the plan lacks with CREATE INDEX CONCURRENTLY, or ANALYZE the new table.',
    },
  ];
}

function origin({ source, countedSince }: Pick<QueriesSection, 'source' | 'countedSince'>): string {
  return countedSince === null ? source : `${source}, counted since ${countedSince}`;
}

function excerpt(sql: string): string {
  const line = sql.replace(/\s+/g, ' ').trim();
  return line.length > SQL_CHARACTERS ? `${line.slice(0, SQL_CHARACTERS)}…` : line;
}

function rate(callsPerSecond: number | null): string {
  return callsPerSecond === null ? '' : `${formatRate(callsPerSecond)}, `;
}

const cost = (value: number) => formatCount(Math.round(value));
