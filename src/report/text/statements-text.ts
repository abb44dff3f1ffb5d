import { formatBytes, formatCount, formatDuration, plural } from '../../format.ts';
import { statementTime } from '../../hazards/evidence.ts';
import { longestLocks } from '../../hazards/held-locks.ts';
import { sentStatements } from '../../model/repeated.ts';
import type { Report, StatementSection } from '../../model/report.ts';
import { repetitionWords } from '../phrases.ts';
import { flow, layoutTable, type Span, type TextRow, type TextStyle, tone } from '../text-layout.ts';
import { andMore, heading, messageText } from './parts-text.ts';

const LISTED_ERRORS = 3;
const LISTED_SLOWEST = { verbose: 10, short: 3 };
const LISTED_LOCKS = 10;
const SQL_COLUMNS = 160;
/** Faster statements are not worth a line in a list of the slowest. */
const NOTICEABLE_MS = { verbose: 1, short: 50 };

/** Statements, and what has to be known of the schema to tell locks that matter. */
type Sent = Pick<Report, 'statements' | 'schema'>;

export function statementsText(report: Sent, style: TextStyle): string[] {
  const { statements } = report;
  if (statements.length === 0) return [];
  const failed = statements.filter((statement) => statement.error !== null);
  const total = statements.reduce((sum, statement) => sum + statement.durationMs, 0);
  const count = plural(sentStatements(statements), 'statement');
  const failures = failed.length === 0 ? '' : `, ${formatCount(failed.length)} FAILED`;
  return [
    ...heading(style, 'Statements', `${count}, ${formatDuration(total)} in the server${failures}`),
    ...slowestLines(statements, style),
    ...(style.verbose ? lockLines(report, style) : []),
  ];
}

/** Statements that failed: the reason if the command failed, a side note if it did not (tools try things out). */
export function failureSection({ statements }: Pick<Report, 'statements'>, style: TextStyle): string[] {
  const failed = statements.filter((statement) => statement.error !== null);
  if (failed.length === 0) return [];
  return [
    ...heading(
      style,
      'Failed statements',
      `${formatCount(failed.length)} of ${formatCount(sentStatements(statements))}`,
    ),
    ...failed.slice(0, LISTED_ERRORS).flatMap((statement) => failureLines(statement, style)),
    ...andMore(style, failed.length - LISTED_ERRORS),
  ];
}

function failureLines(statement: StatementSection, style: TextStyle): string[] {
  const { error } = statement;
  if (error === null) return [];
  const asides: [string, string | null][] = [
    ['Detail: ', error.detail],
    ['Hint: ', error.hint],
  ];
  return [
    ...flow(style, [messageText(style, statement.sql, SQL_COLUMNS)], 4, [
      '  ',
      tone('bad', 'FAILED'),
      ` ${statement.index}. `,
    ]),
    ...flow(style, [tone('bad', messageText(style, error.message)), ` (SQLSTATE ${error.sqlstate})`], 6, [
      '    ',
    ]),
    ...asides.flatMap(([label, text]) =>
      text === null ? [] : flow(style, [messageText(style, text)], 6, ['    ', tone('dim', label)]),
    ),
    ...(error.position === null
      ? []
      : flow(style, [nearby(statement.sql, error.position, style)], 6, ['    '])),
  ];
}

/** PostgreSQL counts the position in characters, from 1. */
function nearby(sql: string, position: number, style: TextStyle): Span {
  const excerpt = Array.from(sql.slice(0, position * 2 + 80))
    .slice(position - 1, position + 39)
    .join('');
  return tone('dim', `at character ${formatCount(position)}: ${messageText(style, excerpt, 40)}`);
}

function slowestLines(statements: StatementSection[], style: TextStyle): string[] {
  const limits = style.verbose
    ? { listed: LISTED_SLOWEST.verbose, noticeableMs: NOTICEABLE_MS.verbose }
    : { listed: LISTED_SLOWEST.short, noticeableMs: NOTICEABLE_MS.short };
  const slowest = statements
    .toSorted((one, other) => expectedMs(other) - expectedMs(one))
    .slice(0, limits.listed)
    .filter((statement, index) => index === 0 || statement.durationMs >= limits.noticeableMs);
  const widest = Math.max(...slowest.map((statement) => formatDuration(statement.durationMs).length));
  return [
    ...(style.verbose ? flow(style, ['  Slowest']) : []),
    ...slowest.flatMap((statement) => {
      const duration = `${formatDuration(statement.durationMs).padStart(widest)}  `;
      const sql = `${statement.index}. ${messageText(style, statement.sql, SQL_COLUMNS)}`;
      return flow(style, [sql, tone('dim', facts(statement))], widest + 6, [`    ${duration}`]);
    }),
  ];
}

function expectedMs({ durationMs, atProductionSize }: StatementSection): number {
  return atProductionSize?.ms ?? durationMs;
}

function facts(statement: StatementSection): string {
  const known = [
    statement.atProductionSize ? statementTime(statement) : '',
    statement.repeated ? repetitionWords(statement.repeated) : '',
    statement.rows === null ? '' : plural(statement.rows, 'row'),
    statement.rewrote.length === 0 ? '' : `rewrote ${statement.rewrote.join(', ')}`,
    statement.walBytes === null ? '' : `${formatBytes(statement.walBytes)} WAL`,
    statement.exactness === 'exact' ? '' : `locks ${EXACTNESS[statement.exactness]}`,
  ].filter((fact) => fact !== '');
  return known.length === 0 ? '' : ` [${known.join(', ')}]`;
}

const EXACTNESS = { group: 'of its group', sampled: 'sampled', unknown: 'unknown' } as const;

function lockLines({ statements, schema }: Sent, style: TextStyle): string[] {
  const locks = longestLocks(statements, schema);
  if (locks.length === 0) return [];
  const rows: TextRow[] = locks.slice(0, LISTED_LOCKS).map((lock) => ({
    columns: [
      tone('strong', lock.relation),
      tone(lock.blocks.includes('reads') ? 'warning' : 'plain', lock.mode),
      lock.heldMs === null ? 'held ?' : `held ${formatDuration(lock.heldMs)}`,
    ],
    below: [`blocks ${lock.blocks.join(', ')}`],
  }));
  return [
    ...flow(style, ['  Strongest locks']),
    ...layoutTable(style, rows, 4),
    ...andMore(style, locks.length - LISTED_LOCKS),
  ];
}
