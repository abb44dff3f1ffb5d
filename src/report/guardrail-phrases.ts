import { formatDuration, plural } from '../format.ts';
import type { DuringSection } from '../model/report.ts';

/**
 * Says in one sentence each what the guardrails did while the command ran on the target; nothing if they did nothing.
 * @param shown escapes or cuts a text from outside (a statement, a name) for the sentence.
 */
export function duringWords(during: DuringSection, shown: (text: string) => string): string[] {
  return [
    ...during.diverged.map(
      ({ sql, stopped, onlyValues }) =>
        `${stopped ? 'stopped, because it was not rehearsed' : onlyValues ? 'run with other values than in the rehearsal' : 'not rehearsed'}: ${shown(sql)}`,
    ),
    ...during.cancelled.map((each) => `${cancelledFor(each)}: ${shown(each.sql)}`),
    ...during.retries.map(
      ({ sql, failed, causes, pausedMs, outcome }) =>
        `${plural(failed, 'attempt')} ${causes.map((cause) => FAILED_OF[cause]).join(' or ')}, ${formatDuration(pausedMs)} of pauses, then it ${outcome}: ${shown(sql)}`,
    ),
    ...during.blockers.map((each) => blockerWords(each, shown)),
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

function blockerWords(
  { pid, user, application, state, query, since, blocked, ended }: DuringSection['blockers'][number],
  shown: (text: string) => string,
): string {
  const known = [user, application, state, since && `since ${since}`]
    .filter((part) => part !== null && part !== '')
    .join(', ');
  const process = `process ${pid}${known === '' ? '' : ` (${shown(known)})`}${ended ? ', which was terminated,' : ''}`;
  return `${process} blocked ${shown(blocked)}${query === null ? '' : `; its query: ${shown(query)}`}`;
}
