import { formatCount, formatDuration, plural } from '../../format.ts';
import type { LoadPhase, LoadSection, Report } from '../../model/report.ts';
import { loadDetails } from '../load-phrases.ts';
import { flow, type TextStyle, tone } from '../text-layout.ts';
import { andMore, bullet, heading, messageText } from './parts-text.ts';

const LISTED = 5;

/** What the target's traffic felt on a second clone. */
export function loadText({ load }: Report, style: TextStyle): string[] {
  if (!load) return [];
  return [
    ...heading(style, 'Under load', load.origin),
    ...loadDetails(load).flatMap((words) => bullet(style, [messageText(style, words)])),
    ...flow(
      style,
      [tone('dim', '          transactions   a second   failed      p50      p95      longest')],
      2,
      ['  '],
    ),
    ...(['before', 'during', 'after'] as const).map((name) => phaseLine(name, load[name])),
    ...load.blocked.slice(0, LISTED).flatMap((each) => bullet(style, blockedWords(each, style))),
    ...andMore(style, load.blocked.length - LISTED),
  ];
}

function phaseLine(name: string, phase: LoadPhase): string {
  const { transactions, failures, durationMs, p50Ms, p95Ms, maxMs } = phase;
  const ms = (value: number | null, width: number) =>
    (value === null ? '-' : formatDuration(value)).padStart(width);
  const perSecond = formatCount(Math.round((transactions * 1000) / Math.max(durationMs, 1)));
  return `    ${name.padEnd(8)}${formatCount(transactions).padStart(12)}${perSecond.padStart(11)}${formatCount(failures).padStart(9)}${ms(p50Ms, 9)}${ms(p95Ms, 9)}${ms(maxMs, 13)}`;
}

function blockedWords(
  { relation, statement, sessions, blockedMs, longestMs }: LoadSection['blocked'][number],
  style: TextStyle,
) {
  return [
    tone('strong', messageText(style, relation ?? 'other locks')),
    `: ${plural(sessions, 'session')} waited for up to ${formatDuration(longestMs)}, ${formatDuration(blockedMs)} in all` +
      (statement === null ? '' : ` (statement ${formatCount(statement)})`),
  ];
}
