import { formatDuration, plural } from '../../format.ts';
import type { Span, TextStyle } from '../layout.ts';
import type { DuringSection } from '../model.ts';
import { andMore, bullet, heading, message } from './parts.ts';

const LISTED = 5;
const SQL_COLUMNS = 120;

/** What was done to the command on its way to the target; nothing where nothing had to be. */
export function duringLines(during: DuringSection | null, style: TextStyle): string[] {
  if (during === null) return [];
  const shown = (sql: string) => message(style, sql, SQL_COLUMNS);
  const lines: Span[][] = [
    ...during.diverged.map(({ sql, stopped }): Span[] => [
      `${stopped ? 'stopped, because it was not rehearsed' : 'not rehearsed'}: ${shown(sql)}`,
    ]),
    ...during.cancelled.map((each): Span[] => [`${cancelledFor(each)}: ${shown(each.sql)}`]),
    ...during.retries.map(({ sql, failed, pausedMs, outcome }): Span[] => [
      `${plural(failed, 'attempt')} without the lock in ${formatDuration(pausedMs)} of pauses, then it ${outcome}: ${shown(sql)}`,
    ]),
    ...during.blockers.map((each): Span[] => [`${blockerOf(each, style)}, blocked ${shown(each.blocked)}`]),
    ...during.ownTimeouts.map(({ setting, value, where }): Span[] => [
      `the command's own ${setting} was left to it: ${value ?? 'not read'} (${where})`,
    ]),
    ...(during.pausedMs > 0 ? [[`held back by pause: ${formatDuration(during.pausedMs)}`]] : []),
    ...(during.laggedMs > 0
      ? [[`held back for standbys to catch up: ${formatDuration(during.laggedMs)}`]]
      : []),
  ];
  if (lines.length === 0) return [];
  return [
    ...heading(style, 'On the way'),
    ...lines.slice(0, LISTED * 2).flatMap((spans) => bullet(style, spans)),
    ...andMore(style, lines.length - LISTED * 2),
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
  style: TextStyle,
): string {
  const told = [user, application, state, since && `since ${since}`]
    .filter((part) => part !== null && part !== '')
    .join(', ');
  const running = query === null ? '' : `: ${message(style, query, SQL_COLUMNS)}`;
  return `process ${pid}${told === '' ? '' : ` (${message(style, told)})`}${ended ? ', which was ended' : ''}${running}`;
}
