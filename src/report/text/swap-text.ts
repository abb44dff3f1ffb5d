import { formatDuration, formatTime, plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { flow, type Span, type TextStyle, tone } from '../text-layout.ts';
import { bullet, heading, messageText } from './parts-text.ts';

/** The state of the target after `safemigrate swap`, which an operator needs to know first. */
export function swapText({ swap, target }: Report, style: TextStyle): string[] {
  if (swap === null) return [];
  const { outcome, reasons, original, keepUntil, stallMs, sessionsEnded, steps } = swap;
  const closed = stallMs === null ? '' : `, closed for ${formatDuration(stallMs)}`;
  const name = target.database;
  if (outcome === 'swapped') {
    return [
      ...heading(style, 'Swapped', `${name} is now the migrated clone${closed}`),
      ...line(style, ['The original is kept as ', tone('strong', original ?? '?'), '.']),
      ...line(style, ['To go back: ', tone('strong', 'safemigrate rollback')]),
      ...(keepUntil === null ? [] : line(style, [`It is to be kept until ${formatTime(keepUntil)}.`])),
      ...line(style, [`${plural(sessionsEnded, 'session')} terminated; ${stepsOf(steps)}`]),
      ...line(style, [
        'Cumulative statistics start at zero; the planner statistics are those of the original.',
      ]),
    ];
  }
  const title =
    outcome === 'undone' ? `${name} is open again, and as before${closed}` : 'nothing was changed';
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
