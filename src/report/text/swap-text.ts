import { formatDuration, formatTime, plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { flow, type Span, type TextStyle, tone } from '../text-layout.ts';
import { bullet, heading, messageText } from './parts-text.ts';

/** Which state the target is in after `--swap`: what an operator has to know before anything else. */
export function swapText({ swap, target }: Report, style: TextStyle): string[] {
  if (swap === null) return [];
  const { outcome, reasons, original, keepUntil, stallMs, sessionsEnded, steps } = swap;
  const closed = stallMs === null ? '' : `, closed for ${formatDuration(stallMs)}`;
  const name = target.database;
  if (outcome === 'swapped') {
    return [
      ...heading(style, 'Swapped', `${name} is the migrated clone now${closed}`),
      ...line(style, [
        'The original is kept as ',
        tone('strong', original ?? '?'),
        '. Back: safemigrate rollback',
      ]),
      ...(keepUntil === null ? [] : line(style, [`It is meant to be kept until ${formatTime(keepUntil)}.`])),
      ...line(style, [`${plural(sessionsEnded, 'session')} ended; ${stepsOf(steps)}`]),
      ...line(style, ['Cumulative statistics begin at zero; the planner has its own from the original.']),
    ];
  }
  const title =
    outcome === 'undone' ? `nothing changed: ${name} is open, and as it was${closed}` : 'nothing was touched';
  return [
    ...heading(style, outcome === 'undone' ? 'Swap undone' : 'Not swapped', title),
    ...reasons.flatMap((reason) => bullet(style, [messageText(style, reason)])),
  ];
}

function line(style: TextStyle, spans: Span[]): string[] {
  return flow(style, spans, 4, ['  ']);
}

function stepsOf(steps: NonNullable<Report['swap']>['steps']): string {
  return steps.map(({ name, durationMs }) => `${name} ${formatDuration(durationMs)}`).join(', ');
}
