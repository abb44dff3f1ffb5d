import { formatDuration, plural } from '../format.ts';
import type { DuringSection } from '../model/report.ts';

/**
 * What was done to the command on its way to the target, a sentence each; none where nothing had to be.
 * @param shown makes a text from outside (a statement, a name) fit for the sentence.
 */
export function duringWords(during: DuringSection, shown: (text: string) => string): string[] {
  return [
    ...during.diverged.map(
      ({ sql, stopped }) =>
        `${stopped ? 'stopped, because it was not rehearsed' : 'not rehearsed'}: ${shown(sql)}`,
    ),
    ...during.cancelled.map((each) => `${cancelledFor(each)}: ${shown(each.sql)}`),
    ...during.retries.map(
      ({ sql, failed, pausedMs, outcome }) =>
        `${plural(failed, 'attempt')} without the lock in ${formatDuration(pausedMs)} of pauses, then it ${outcome}: ${shown(sql)}`,
    ),
    ...during.blockers.map((each) => `${blockerOf(each, shown)}, blocked ${shown(each.blocked)}`),
    ...during.ownTimeouts.map(
      ({ setting, value, where }) =>
        `the command's own ${setting} was left to it: ${value ?? 'not read'} (${where})`,
    ),
    ...(during.pausedMs > 0 ? [`held back by pause: ${formatDuration(during.pausedMs)}`] : []),
    ...(during.laggedMs > 0
      ? [`held back for standbys to catch up: ${formatDuration(during.laggedMs)}`]
      : []),
  ];
}

function cancelledFor({ outcome, waiting, waitedMs }: DuringSection['cancelled'][number]): string {
  const behind = `${plural(waiting, 'session')} behind it, for up to ${formatDuration(waitedMs)}`;
  switch (outcome) {
    case 'cancelled':
      return `cancelled, with ${behind}`;
    case 'refused':
      return `not let begin, with ${behind} already`;
    case 'standby':
      return `left alone although it kept ${behind}: committed here, and waiting for a standby`;
  }
}

function blockerOf(
  { pid, user, application, state, query, since, ended }: DuringSection['blockers'][number],
  shown: (text: string) => string,
): string {
  const told = [user, application, state, since && `since ${since}`]
    .filter((part) => part !== null && part !== '')
    .join(', ');
  const running = query === null ? '' : `: ${shown(query)}`;
  return `process ${pid}${told === '' ? '' : ` (${shown(told)})`}${ended ? ', which was ended' : ''}${running}`;
}
