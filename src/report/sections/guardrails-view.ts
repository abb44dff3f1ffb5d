import { formatDuration, formatTime, plural } from '../../format.ts';
import type { DuringSection } from '../../model/report.ts';
import { type Phrase, type Section, sql } from '../view/section.ts';

const LISTED = 10;

/** The work of the guardrails while the command ran on the target; nothing if they did none. */
export function duringView(during: DuringSection | null): Section[] {
  const items = during === null ? [] : duringPhrases(during).map((text) => ({ text }));
  if (items.length === 0) return [];
  return [
    {
      id: 'guardrails',
      title: 'Guardrails',
      folds: 'never',
      importance: 8,
      blocks: [{ kind: 'items', items, listed: LISTED }],
    },
  ];
}

/** Number of blockers that are listed. */
const SHOWN_BLOCKERS = 10;

function duringPhrases(during: DuringSection): Phrase[] {
  return [
    ...during.diverged.map(
      ({ sql: text, stopped, onlyValues }): Phrase => [
        `${stopped ? 'stopped, because it was not rehearsed' : onlyValues ? 'run with other values than in the rehearsal' : 'not rehearsed'}: `,
        sql(text),
      ],
    ),
    ...during.cancelled.map((each): Phrase => [`${cancelledFor(each)}: `, sql(each.sql)]),
    ...during.retries.map(
      ({ sql: text, failed, causes, pausedMs, outcome }): Phrase => [
        `${plural(failed, 'attempt')} ${causes.map((cause) => FAILED_OF[cause]).join(' or ')}, ${formatDuration(pausedMs)} of pauses, then it ${outcome}: `,
        sql(text),
      ],
    ),
    ...during.blockers.slice(0, SHOWN_BLOCKERS).map(blockerPhrase),
    ...(during.blockers.length > SHOWN_BLOCKERS
      ? [
          `${plural(during.blockers.length - SHOWN_BLOCKERS, 'more session')} blocked it; the JSON report lists them`,
        ]
      : []),
    ...during.ownTimeouts.map(
      ({ setting, value, where }) =>
        `the command set ${setting} itself, ${where === 'start-up' ? 'at start-up' : 'in a statement'}: ` +
        (value ?? 'the value was not read'),
    ),
    ...(during.pausedMs > 0
      ? [`statements held back by safemigrate pause: ${formatDuration(during.pausedMs)}`]
      : []),
    ...(during.laggedMs > 0
      ? [`statements held back until standbys caught up: ${formatDuration(during.laggedMs)}`]
      : []),
  ];
}

const FAILED_OF = {
  'lock-timeout': 'timed out waiting for the lock',
  deadlock: 'ended in a deadlock',
} as const;

function cancelledFor({ outcome, waiting, waitedMs }: DuringSection['cancelled'][number]): string {
  const blocked = `${plural(waiting, 'session')} for up to ${formatDuration(waitedMs)}`;
  switch (outcome) {
    case 'cancelled':
      return `cancelled, because it blocked ${blocked}`;
    case 'refused':
      return `not started, because the command already blocked ${blocked}`;
    case 'standby':
      return `not cancelled although it blocked ${blocked}: it was committed locally and waited for a standby`;
  }
}

function blockerPhrase({
  pid,
  user,
  application,
  state,
  query,
  since,
  blocked,
  ended,
}: DuringSection['blockers'][number]): Phrase {
  const known = [user, application, state, since && `since ${inUtc(since)}`]
    .filter((each) => each !== null && each !== '')
    .join(', ');
  const process = `process ${pid}${known === '' ? '' : ` (${known})`}${ended ? ', which was terminated,' : ''}`;
  return [`${process} blocked `, sql(blocked), ...(query === null ? [] : ['; its query: ', sql(query)])];
}

/** The server's time in UTC; unchanged if it cannot be read. */
function inUtc(time: string): string {
  const read = new Date(time);
  return Number.isNaN(read.getTime()) ? time : formatTime(read.toISOString());
}
