import { formatDuration, plural } from '../../format.ts';
import type { StatementSection } from '../../model/report.ts';
import { statementTime } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { sessionsOf, timeoutsOf } from './lock-timeouts.ts';

/** On a busy server a statement may well take twice as long as on a clone without other sessions. */
const NEAR = 0.5;

/** Times that come near the limit of a statement. */
export const STATEMENT_TIMEOUTS: readonly HazardRecord[] = [
  {
    code: 'STATEMENT_TIMEOUT_TOO_SHORT',
    title: 'a statement takes nearly as long as statement_timeout allows',
    condition: `A statement takes more than ${NEAR * 100} % of its statement_timeout: that of the role or the database (ALTER ROLE … SET, ALTER DATABASE … SET), of the connection, or of the command itself. With a profile its time at production's size counts. An error if even the shortest estimate is longer than the timeout.`,
    effect:
      'No other session worked on the clone. On a busy server the statement takes longer, and is canceled with SQLSTATE 57014: the migration fails halfway, and a concurrent build leaves an INVALID index.',
    safer:
      'SET statement_timeout = 0 in the session of the migration, with a lock_timeout for its waits (https://www.postgresql.org/docs/current/runtime-config-client.html#GUC-STATEMENT-TIMEOUT).',
    find: (context) => sessionsOf(context).flatMap((statements) => nearTimeout(context, statements)),
  },
];

/** The statement of a session that comes nearest to its limit. */
function nearTimeout(context: HazardContext, statements: readonly StatementSection[]): Finding[] {
  const { catalogue, statementTimeouts } = context.facts;
  const begins = statementTimeouts?.get(statements[0]?.session ?? 0) ?? catalogue.statementTimeoutMs ?? 0;
  const limits = timeoutsOf(context, statements, 'set statement_timeout', begins || undefined);
  const [first, ...others] = statements
    .flatMap((statement) => {
      const limitMs = limits.get(statement.index);
      return limitMs == null || statement.error
        ? []
        : [{ statement, limitMs, share: timeOf(statement) / limitMs }];
    })
    .filter(({ share }) => share > NEAR)
    .sort((one, other) => other.share - one.share);
  if (!first) return [];
  const { statement, limitMs } = first;
  const { lowMs = 0 } = statement.atProductionSize ?? {};
  const more = others.length === 0 ? '' : `, and ${plural(others.length, 'other statement')} nearly as long`;
  return [
    {
      statement: statement.index,
      relation: null,
      severity: lowMs > limitMs ? 'error' : 'warning',
      message: `the statement takes ${timeWordsOf(statement)}${more}, and statement_timeout is ${formatDuration(limitMs)}`,
      evidence: statement.atProductionSize
        ? "estimated at production's size from its time on the clone"
        : 'measured on the clone, where no other session was at work',
      advice: sqlAdvice(
        'Before the statement; RESET statement_timeout after it:',
        'SET statement_timeout = 0',
      ),
    },
  ];
}

/** The time of one statement, the longest of many that are alike. */
function timeOf({ durationMs, repeated }: StatementSection): number {
  return repeated?.maxMs ?? durationMs;
}

function timeWordsOf(statement: StatementSection): string {
  const { repeated } = statement;
  return repeated ? formatDuration(repeated.maxMs) : statementTime(statement);
}
