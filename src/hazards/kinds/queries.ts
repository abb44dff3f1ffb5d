import { formatCount, formatRate, listed, plural } from '../../format.ts';
import type { QueriesSection } from '../../model/report.ts';
import { lastPart } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { BUSY_PER_SECOND } from '../thresholds.ts';
import { lostSearches } from './dropped-constraints.ts';
import { indexOfDrop } from './dropped-objects.ts';
import { isLarge } from './maintenance.ts';

/** Effects on queries of the running application. All queries share one finding; the report lists them. */
export const QUERIES: readonly HazardRecord[] = [
  {
    code: 'QUERY_BREAKS',
    title: 'a query of the running application no longer works',
    condition:
      'A query of pg_stat_statements or of a file (--queries) could be prepared and planned before the command but not after it; a warning if it is sent less than once an hour.',
    effect: 'The running application gets an error for it, from the commit until it is replaced.',
    safer:
      'First release an application that no longer sends the query, then drop or rename what it used; for a rename, keep the old name in the meantime (a view, a generated or a second column).',
    find: ({ facts: { queries } }) => (queries ? breaks(queries) : []),
  },
  {
    code: 'WRITES_BREAK',
    title: 'a write of the running application will be refused',
    condition:
      'An INSERT of pg_stat_statements or of a file (--queries) does not name a column that is NOT NULL and has no default since the command, and no BEFORE INSERT trigger of the table may fill it. Or an INSERT or UPDATE violates a CHECK or foreign key that the command made: it is tried on the clone in a transaction that is rolled back, with the values of an existing row for its parameters and the defaults of the table for the rest. A warning if it is sent less than once an hour. Not found: values that only the application knows, and writes of tables with a BEFORE trigger for each row.',
    effect:
      'The write fails with SQLSTATE 23502, 23514 or 23503, from the commit until the application is replaced.',
    safer:
      'Keep a DEFAULT that the constraint accepts until all running code writes the column (https://www.postgresql.org/docs/current/ddl-constraints.html#DDL-CONSTRAINTS-NOT-NULL).',
    find: (context) => (context.facts.queries ? refusals(context, context.facts.queries) : []),
  },
  {
    code: 'PREPARED_STATEMENT_BREAKS',
    title: 'prepared statements of open sessions will fail once',
    condition: `A query of pg_stat_statements or of a file (--queries) returns columns of other names or types than before: SELECT * after ADD COLUMN, a column of another type. A notice if it is sent less than ${BUSY_PER_SECOND} times a second.`,
    effect:
      'A session that prepared the query before the commit gets "cached plan must not change result type" (SQLSTATE 0A000), and in a transaction loses it; drivers and ORMs prepare by themselves (JDBC, npgsql, pgx, Rails), and a pool keeps such sessions for hours.',
    safer:
      'Name columns instead of SELECT *; let the application reconnect after the commit, with PgBouncer RECONNECT (https://www.postgresql.org/docs/current/sql-prepare.html, https://www.pgbouncer.org/usage.html).',
    find: ({ facts: { queries } }) => (queries ? changedRows(queries) : []),
  },
  {
    code: 'QUERY_SLOWER',
    title: 'an application query gets a more expensive plan, or loses its index',
    condition:
      'The cost of the generic plan of a query (--queries) is at least ten times its cost before the command, by the sizes and statistics of --profile if there is one. If ANALYZE on the clone makes that vanish, it is a notice, and says which table to analyze. Or an index of a large table is dropped that the statistics of the target show in use, and no other one has its first column or expression; a notice if queries were tried, or the statistics are not known.',
    effect: 'The query takes longer after the commit, and all its calls together load the server.',
    safer:
      'Build the index that the new plan lacks with CREATE INDEX CONCURRENTLY before the old one is dropped; ANALYZE rewritten tables.',
    find: (context) => {
      const { queries } = context.facts;
      if (!queries) return withoutIndex(context);
      const { slower } = queries;
      const lacking = slower.filter(({ untilAnalyzed }) => untilAnalyzed !== undefined);
      const lasting = slower.filter(({ untilAnalyzed }) => untilAnalyzed === undefined);
      return [
        ...slows({ ...queries, slower: lasting }),
        ...slowUntilAnalyzed({ ...queries, slower: lacking }),
        ...withoutIndex(context),
      ];
    },
  },
];

const SHOWN = { atMost: 3, separator: '; ' };
const SQL_CHARACTERS = 120;

const SELDOM_PER_SECOND = 1 / 3600;

/** Says whether they all are: a query that a person sent once stays in the statistics for a long time. */
export function isSeldom(queries: readonly { readonly callsPerSecond: number | null }[]): boolean {
  return queries.every(({ callsPerSecond }) => callsPerSecond !== null && callsPerSecond < SELDOM_PER_SECOND);
}

function breaks({ broken, ...section }: QueriesSection): Finding[] {
  if (broken.length === 0) return [];
  const seldom = isSeldom(broken);
  const texts = broken.map(
    ({ sql, error, callsPerSecond }) =>
      `${queryExcerpt(sql)} (${callRate(callsPerSecond)}${error.sqlstate}: ${error.message})`,
  );
  return [
    {
      statement: null,
      relation: null,
      severity: seldom ? 'warning' : 'error',
      message: `${queriesThat(broken, 'no longer works', 'no longer work')}: ${listed(texts, SHOWN)}`,
      evidence: `prepared on the clone before and after the command; from ${origin(section)}`,
      advice:
        'Release an application that no longer sends it before this migration, or keep the old name until then.',
    },
  ];
}

function refusals(context: HazardContext, section: QueriesSection): Finding[] {
  const refused = section.refused ?? [];
  const lacking = refused.filter(({ constraint }) => constraint === undefined);
  const violating = refused.filter(({ constraint }) => constraint !== undefined);
  return [...lackingValues(context, section, lacking), ...violations(context, section, violating)];
}

type Refused = NonNullable<QueriesSection['refused']>;

function lackingValues(context: HazardContext, section: QueriesSection, refused: Refused): Finding[] {
  return [...new Set(refused.map(({ relation }) => relation))].map((relation): Finding => {
    const own = refused.filter((query) => query.relation === relation);
    const columns = [...new Set(own.flatMap((query) => query.columns))];
    return {
      statement: requiring(context, relation, columns),
      relation,
      severity: isSeldom(own) ? 'warning' : 'error',
      message: `${plural(own.length, 'INSERT')} of the running application ${own.length === 1 ? 'does not name' : 'do not name'} ${listed(columns)} of ${relation}, which must have a value: ${excerpts(own)}`,
      evidence: `columns named by the queries, and NOT NULL without a default on the clone; from ${origin(section)}`,
      advice: sqlAdvice(
        'Until all running code writes the column:',
        ...columns.map((column) => `ALTER TABLE ${relation} ALTER COLUMN ${column} SET DEFAULT …`),
      ),
    };
  });
}

function violations(context: HazardContext, section: QueriesSection, refused: Refused): Finding[] {
  const keyOf = ({ relation, constraint = '' }: Refused[number]) => `${relation}.${constraint}`;
  return [...new Set(refused.map(keyOf))].flatMap((key): Finding[] => {
    const own = refused.filter((query) => keyOf(query) === key);
    const [{ relation, constraint = '', columns } = { relation: '', columns: [] }] = own;
    const makers = context.actionsOn('add constraint').filter((each) => each.relation === relation);
    const maker = makers.find(({ part }) => part === key) ?? makers.at(-1);
    return [
      {
        statement: maker?.statement.index ?? null,
        relation,
        severity: isSeldom(own) ? 'warning' : 'error',
        message: `${plural(own.length, 'write')} of the running application ${own.length === 1 ? 'violates' : 'violate'} the constraint ${constraint} of ${relation}: ${excerpts(own)}`,
        evidence: `tried on the clone with the values of an existing row, and rolled back; from ${origin(section)}`,
        advice: `First release an application that writes ${listed(columns)} as the constraint demands, then add it.`,
      },
    ];
  });
}

/** The last statement that makes one of the columns required. */
function requiring(context: HazardContext, relation: string, columns: readonly string[]): number | null {
  const parts = columns.map((column) => `${relation}.${column}`);
  const makers = (['add column', 'set not null', 'drop default'] as const)
    .flatMap((does) => [...context.actionsOn(does)])
    .filter(({ part }) => part !== null && parts.includes(part));
  return makers.reduce<number | null>((last, { statement }) => Math.max(last ?? 0, statement.index), null);
}

function changedRows({ changedRow = [], ...section }: QueriesSection): Finding[] {
  if (changedRow.length === 0) return [];
  const isBusy = changedRow.some(
    ({ callsPerSecond }) => (callsPerSecond ?? BUSY_PER_SECOND) >= BUSY_PER_SECOND,
  );
  return [
    {
      statement: null,
      relation: null,
      severity: isBusy ? 'warning' : 'notice',
      message: `${queriesThat(changedRow, 'returns', 'return')} other columns than before, which sessions that prepared it do not accept: ${excerpts(changedRow)}`,
      evidence: `described by the server before and after the command; from ${origin(section)}`,
      advice:
        'Let the application reconnect right after the commit: restart it, or send RECONNECT to the console of PgBouncer.',
    },
  ];
}

/** Lists queries with how often they are sent. */
function excerpts(
  queries: readonly { readonly sql: string; readonly callsPerSecond: number | null }[],
): string {
  const texts = queries.map(({ sql, callsPerSecond }) =>
    callsPerSecond === null ? queryExcerpt(sql) : `${queryExcerpt(sql)} (${formatRate(callsPerSecond)})`,
  );
  return listed(texts, SHOWN);
}

function queriesThat(queries: readonly unknown[], does: string, severalDo: string): string {
  const verb = queries.length === 1 ? does : severalDo;
  return `${plural(queries.length, 'query', 'queries')} of the running application ${verb}`;
}

function slows({ slower, ...section }: QueriesSection): Finding[] {
  if (slower.length === 0) return [];
  const texts = slower.map((query) => {
    const { sql, costBefore, costAfter, nodeBefore, nodeAfter, callsPerSecond } = query;
    const node = nodeBefore === null || nodeAfter === null ? '' : `, ${nodeBefore} → ${nodeAfter}`;
    return `${queryExcerpt(sql)} (${callRate(callsPerSecond)}cost ${planCost(costBefore)} → ${planCost(costAfter)}${node})`;
  });
  return [
    {
      statement: null,
      relation: null,
      severity: 'warning',
      message: `${queriesThat(slower, 'gets', 'get')} a more expensive plan: ${listed(texts, SHOWN)}`,
      evidence: `generic plans on the clone before and after the command${bySizes(slower)}; from ${origin(section)}`,
      advice: 'Build the index that the plan lacks with CREATE INDEX CONCURRENTLY, or ANALYZE the new table.',
    },
  ];
}

/** Autovacuum does it as well, some time later. */
function slowUntilAnalyzed({ slower, ...section }: QueriesSection): Finding[] {
  if (slower.length === 0) return [];
  const tables = [...new Set(slower.flatMap(({ untilAnalyzed = [] }) => untilAnalyzed))];
  const texts = slower.map(({ sql }) => queryExcerpt(sql));
  return [
    {
      statement: null,
      relation: null,
      severity: 'notice',
      message: `${queriesThat(slower, 'gets', 'get')} a more expensive plan until ${listed(tables, SHOWN)} ${tables.length === 1 ? 'is' : 'are'} analyzed: ${listed(texts, SHOWN)}`,
      evidence: `after ANALYZE on the clone the plans${bySizes(slower)} were no longer more expensive; from ${origin(section)}`,
      advice: sqlAdvice('Right after the migration:', ...tables.map((table) => `ANALYZE ${table}`)),
    },
  ];
}

/** Searches of a large table that no index serves any more. */
function withoutIndex(context: HazardContext): Finding[] {
  const { queries, indexScans } = context.facts;
  const isTried = (queries?.checked ?? 0) > 0;
  return lostSearches(context)
    .filter(({ relation, index }) => isLarge(context, relation) && indexScans?.get(index) !== 0)
    .map(({ relation, index, isConstraint, part }): Finding => {
      const scans = indexScans?.get(index);
      const object = isConstraint ? `${relation}.${lastPart(index)}` : index;
      return {
        statement: indexOfDrop(context, isConstraint ? 'constraint' : 'index', object),
        relation,
        severity: scans === undefined || isTried ? 'notice' : 'warning',
        message: `drops the index ${index}, and no other one of ${relation} has ${part}: a search by it reads the whole table`,
        evidence: `${scans === undefined ? 'it is not known whether it was used' : `${plural(scans, 'scan')} of it in the statistics of the target`}; ${relationEvidence(context, relation)}`,
        advice: sqlAdvice(
          'If queries still search by it, outside of a transaction before the drop:',
          `CREATE INDEX CONCURRENTLY … ON ${relation} (${part})`,
        ),
      };
    });
}

function bySizes(slower: QueriesSection['slower']): string {
  return slower.some(({ atProductionSize }) => atProductionSize)
    ? " at production's size and with its statistics"
    : '';
}

function origin({ source, countedSince }: Pick<QueriesSection, 'source' | 'countedSince'>): string {
  return countedSince === null ? source : `${source}, counted since ${countedSince}`;
}

/** Shortens a query to one line. */
export function queryExcerpt(sql: string): string {
  const line = sql.replace(/\s+/g, ' ').trim();
  return line.length > SQL_CHARACTERS ? `${line.slice(0, SQL_CHARACTERS)}…` : line;
}

/** Begins a sentence with the rate of a query's calls, if it is known. */
export function callRate(callsPerSecond: number | null): string {
  return callsPerSecond === null ? '' : `${formatRate(callsPerSecond)}, `;
}

/** A cost as the planner estimates it. */
export const planCost = (value: number) => formatCount(Math.round(value));
