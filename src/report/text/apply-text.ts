import { formatCount, formatDuration, listed, plural } from '../../format.ts';
import type { ApplySection, Report } from '../../model/report.ts';
import { commandWords, isAppliedInPart } from '../phrases.ts';
import { flow, marks, type Span, type TextStyle, tone } from '../text-layout.ts';
import { duringLines } from './guardrails-text.ts';
import { andMore, bullet, fact, heading, messageText } from './parts-text.ts';

const LISTED = 10;
const LISTED_TIMES = 5;
const SQL_COLUMNS = 160;
const ATTEMPT_SQL_COLUMNS = 80;

/** The outcome of `--apply`, beginning with the state of the target. */
export function applyText(report: Report, style: TextStyle): string[] {
  const { apply } = report;
  if (apply === null) return [];
  return [
    ...flow(style, [titleOf(apply, report, style), ...stateOf(apply, report, style)]),
    ...apply.reasons.slice(0, LISTED).flatMap((reason) => bullet(style, [messageText(style, reason)])),
    ...andMore(style, apply.reasons.length - LISTED),
    ...facts(apply, style),
    ...attemptLines(apply, style),
    ...effectLines(apply, style),
    ...duringLines(apply.during, style),
    ...differenceLines(apply, style),
    ...timeLines(apply, style),
    ...rollbackLines(apply, style),
  ];
}

function titleOf({ outcome }: ApplySection, report: Report, style: TextStyle): Span {
  switch (outcome) {
    case 'applied':
      if (isAppliedInPart(report)) return tone('warning', 'APPLIED IN PART');
      return tone('good', `${marks(style).pass} APPLIED`);
    case 'refused':
      return tone('bad', `${marks(style).fail} NOT APPLIED`);
    case 'failed':
      return tone('bad', `${marks(style).fail} APPLY FAILED`);
    case 'partly':
      return tone('alarm', '!!! THE TARGET IS NOT AS ASKED !!!');
  }
}

function stateOf(apply: ApplySection, report: Report, style: TextStyle): Span[] {
  const { target } = report;
  const name = messageText(style, target.database);
  switch (apply.outcome) {
    case 'applied':
      return isAppliedInPart(report)
        ? [`: statements failed on ${name} as in the rehearsal, although the command ended with exit code 0.`]
        : [`: ${name} matches the rehearsal.`];
    case 'refused':
      return [`: ${name} was not changed.`];
    case 'failed':
      return [`: ${name} is as before. The command ran there, and everything was rolled back.`];
    case 'partly':
      return [` A person must look at ${name} on ${target.host}:${target.port} now.`];
  }
}

function facts({ forced, receipt, command, bookkeeping }: ApplySection, style: TextStyle): string[] {
  const age = receipt === null ? '' : formatDuration(receipt.ageMs);
  const rows: [string, string][] = [
    ...(command === null ? [] : [['Command', commandWords(command)] satisfies [string, string]]),
    ...(forced === null
      ? []
      : [
          ['Forced', `the rehearsal had not passed: ${messageText(style, forced)}`] satisfies [
            string,
            string,
          ],
        ]),
    ...(receipt === null
      ? []
      : [
          [
            'Receipt',
            `instead of a rehearsal, ${age} old, ${receipt.signed ? 'signed' : 'not signed, only a checksum'}`,
          ] satisfies [string, string],
        ]),
    ...(bookkeeping === null ? [] : [['History', historyWords(bookkeeping)] satisfies [string, string]]),
  ];
  return rows.flatMap(([label, text]) => fact(style, label, [text]));
}

/** Whether the migration tool's own table agrees with what was committed. */
function historyWords({ agrees, unnoted }: NonNullable<ApplySection['bookkeeping']>): string {
  if (agrees) return "the migration tool's own table agrees with what was committed";
  const which = listed(unnoted.map(String), { atMost: LISTED });
  return unnoted.length === 1
    ? `the migration tool's own table lacks statement ${which}, which was committed: another run would send it again`
    : `the migration tool's own table lacks statements ${which}, which were committed: another run would send them again`;
}

/** Nothing if the command ran only once. */
function attemptLines({ attempts, statements }: ApplySection, style: TextStyle): string[] {
  if (attempts.length < 2) return [];
  const sqlOf = (index: number) => statements.find((each) => each.index === index)?.sql ?? '';
  return [
    ...heading(style, 'Attempts', `${plural(attempts.length, 'run')} of the command (--retries)`),
    ...attempts.slice(0, LISTED).flatMap((attempt, at) => {
      const { failure, pausedMs } = attempt;
      const sql = failure && messageText(style, sqlOf(failure.statement), ATTEMPT_SQL_COLUMNS);
      const pause = pausedMs === null ? '' : `; next attempt after a pause of ${formatDuration(pausedMs)}`;
      return bullet(style, [`${at + 1}. ${attemptOf(attempt)}${pause}${sql ? `: ${sql}` : ''}`]);
    }),
    ...andMore(style, attempts.length - LISTED),
  ];
}

function attemptOf({ exitCode, durationMs, failure, committed }: ApplySection['attempts'][number]): string {
  if (exitCode === 0) return `succeeded in ${formatDuration(durationMs)}`;
  const left =
    committed.length === 0
      ? 'everything was rolled back'
      : `${plural(committed.length, 'statement')} committed, or perhaps committed`;
  const what = failure === null ? 'failed' : `statement ${failure.statement} ${FAILED_OF[failure.cause]}`;
  return `${what} (${failure?.sqlstate ?? `exit code ${exitCode}`}) after ${formatDuration(durationMs)}; ${left}`;
}

const FAILED_OF = {
  lock: 'did not get its lock',
  deadlock: 'was the victim of a deadlock',
  watchdog: 'blocked others for too long',
  other: 'failed',
} as const;

/** Nothing if all went well: then it need not be read line by line. */
function effectLines({ outcome, committed, rolledBack }: ApplySection, style: TextStyle): string[] {
  if (outcome === 'applied' || outcome === 'refused') return [];
  const unknown = committed.filter((each) => each.outcome === 'unknown');
  const sure = committed.filter((each) => each.outcome === 'committed');
  return [
    ...effects(style, 'May have been committed', unknown),
    ...effects(style, 'Committed', sure),
    ...effects(style, 'Not committed', rolledBack),
  ];
}

function effects(style: TextStyle, title: string, list: ApplySection['committed']): string[] {
  if (list.length === 0) return [];
  return [
    ...heading(style, title, plural(list.length, 'statement')),
    ...list
      .slice(0, LISTED)
      .flatMap(({ statement, sql }) =>
        bullet(style, [`${statement}. ${messageText(style, sql, SQL_COLUMNS)}`]),
      ),
    ...andMore(style, list.length - LISTED),
  ];
}

function differenceLines({ differences }: ApplySection, style: TextStyle): string[] {
  if (differences.length === 0) return [];
  return [
    ...heading(style, 'Differences from the rehearsal', formatCount(differences.length)),
    ...differences.slice(0, LISTED).flatMap((difference) => bullet(style, [messageText(style, difference)])),
    ...andMore(style, differences.length - LISTED),
  ];
}

function timeLines({ comparedTimes }: ApplySection, style: TextStyle): string[] {
  if (comparedTimes.length === 0) return [];
  const sum = (pick: (each: (typeof comparedTimes)[number]) => number) =>
    formatDuration(comparedTimes.reduce((total, each) => total + pick(each), 0));
  const slowest = comparedTimes
    .toSorted((one, other) => other.appliedMs - one.appliedMs)
    .slice(0, LISTED_TIMES);
  return [
    ...heading(
      style,
      'Times',
      `${plural(comparedTimes.length, 'statement')}: ${sum(({ rehearsedMs }) => rehearsedMs)} rehearsed, ` +
        `${sum(({ appliedMs }) => appliedMs)} on the target`,
    ),
    ...slowest.flatMap(({ sql, rehearsedMs, appliedMs, applied }) =>
      flow(style, [`${applied}. ${messageText(style, sql, SQL_COLUMNS)}`], 6, [
        `    ${formatDuration(rehearsedMs)} ${marks(style).arrow} ${formatDuration(appliedMs)}  `,
      ]),
    ),
  ];
}

function rollbackLines({ outcome, wayBack }: ApplySection, style: TextStyle): string[] {
  if (outcome !== 'partly' || wayBack === null) return [];
  return [
    ...heading(style, 'Rollback SQL', 'restores the schema that the target had before'),
    ...wayBack
      .trimEnd()
      .split('\n')
      .slice(0, LISTED * 2)
      .flatMap((line) => flow(style, [messageText(style, line)], 4, ['    '])),
  ];
}
