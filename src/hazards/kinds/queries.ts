import { formatCount, formatRate, listed, plural } from '../../format.ts';
import type { QueriesSection } from '../../model/report.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';

/** What the running application would meet. One finding for all queries: they are listed in the report. */
export const QUERIES: readonly HazardRecord[] = [
  {
    code: 'QUERY_BREAKS',
    title: 'a query of the running application no longer works',
    condition:
      'A query of pg_stat_statements or of a file (--queries) could be prepared before the command and not after it; a warning where it is sent less than once an hour.',
    effect: 'The application that runs now gets an error for it, from the commit on until it is replaced.',
    safer:
      'Release an application that no longer sends the query first, then drop or rename what it used; for a rename, keep the old name alive meanwhile (a view, a generated or a second column).',
    find: ({ facts: { queries } }) => (queries ? breaks(queries) : []),
  },
  {
    code: 'QUERY_SLOWER',
    title: 'a query of the running application is planned dearer',
    condition:
      'The cost of the generic plan of a query (--queries) is at least ten times what it was before the command (version 16 and newer).',
    effect: 'The query takes longer from the commit on, and all of them together load the server.',
    safer:
      'Build the index that the new plan lacks with CREATE INDEX CONCURRENTLY before the old one goes; ANALYZE what was rewritten.',
    find: ({ facts: { queries } }) => (queries ? slows(queries) : []),
  },
];

const SHOWN = { atMost: 3, separator: '; ' };
const SQL_CHARACTERS = 120;

/** What was sent once, by a person or a former migration, stands in the statistics for a long time. */
const SELDOM_PER_SECOND = 1 / 3600;

function breaks({ broken, ...section }: QueriesSection): Finding[] {
  if (broken.length === 0) return [];
  const seldom = broken.every(
    ({ callsPerSecond }) => callsPerSecond !== null && callsPerSecond < SELDOM_PER_SECOND,
  );
  const told = broken.map(
    ({ sql, error, callsPerSecond }) =>
      `${excerpt(sql)} (${rate(callsPerSecond)}${error.sqlstate}: ${error.message})`,
  );
  const verb = broken.length === 1 ? 'no longer works' : 'no longer work';
  return [
    {
      statement: null,
      relation: null,
      severity: seldom ? 'warning' : 'error',
      message: `${plural(broken.length, 'query', 'queries')} of the running application ${verb}: ${listed(told, SHOWN)}`,
      evidence: `prepared on the clone before the command and after it; from ${origin(section)}`,
      advice:
        'Release an application that no longer sends it before this migration, or keep the old name alive until then.',
    },
  ];
}

function slows({ slower, ...section }: QueriesSection): Finding[] {
  if (slower.length === 0) return [];
  const told = slower.map((query) => {
    const { sql, costBefore, costAfter, nodeBefore, nodeAfter, callsPerSecond } = query;
    const node = nodeBefore === null || nodeAfter === null ? '' : `, ${nodeBefore} → ${nodeAfter}`;
    return `${excerpt(sql)} (${rate(callsPerSecond)}cost ${cost(costBefore)} → ${cost(costAfter)}${node})`;
  });
  const verb = slower.length === 1 ? 'is' : 'are';
  return [
    {
      statement: null,
      relation: null,
      severity: 'warning',
      message: `${plural(slower.length, 'query', 'queries')} of the running application ${verb} planned dearer: ${listed(told, SHOWN)}`,
      evidence: `generic plans on the clone before the command and after it; from ${origin(section)}`,
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
