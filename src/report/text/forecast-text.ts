import { formatCount, plural } from '../../format.ts';
import { timeWords } from '../../hazards/evidence.ts';
import type { ForecastSection, Report } from '../../model/report.ts';
import { basisWords, lockEffects, resourceWords } from '../phrases.ts';
import { flow, type TextStyle, tone } from '../text-layout.ts';
import { andMore, bullet, heading, messageText } from './parts-text.ts';

const LISTED = 5;
type Lock = ForecastSection['locks'][number];

/** What would happen on the target, with the inputs of the estimate: nothing here was measured on the target. */
export function forecastText({ forecast: expected, load }: Report, style: TextStyle): string[] {
  if (expected === null) return [];
  // What was measured under load takes the place of what would be expected.
  const forecast = load ? { ...expected, locks: [] } : expected;
  const noticed = forecast.locks
    .filter((lock) => lockEffects(lock, forecast).length > 0)
    .sort((one, other) => weight(other) - weight(one));
  const rest = forecast.locks.filter(({ queued }) => queued !== null).length - noticed.length;
  const resources = resourceWords(forecast);
  return [
    ...heading(style, 'Forecast', `for the target, ${basisWords(forecast)}`),
    ...noticed.slice(0, LISTED).flatMap((lock) => lockLines(lock, forecast, style)),
    ...andMore(style, noticed.length - LISTED),
    ...(rest > 0 && style.verbose
      ? bullet(style, [
          `at this traffic no session would wait for ${noticed.length > 0 ? 'the other ' : ''}${plural(rest, 'lock')}`,
        ])
      : []),
    ...resources.slice(0, LISTED).flatMap((words) => bullet(style, [messageText(style, words)])),
    ...andMore(style, resources.length - LISTED),
  ];
}

function lockLines(lock: Lock, forecast: ForecastSection, style: TextStyle): string[] {
  const { relation, mode, heldMs, statement, atProductionSize } = lock;
  const held = heldMs === null ? '' : ` for ${timeWords(heldMs, atProductionSize)}`;
  return [
    ...bullet(style, [
      tone(lock.blocks.includes('reads') ? 'warning' : 'plain', mode),
      ' on ',
      tone('strong', relation),
      `${held} (statement ${formatCount(statement)})`,
    ]),
    ...lockEffects(lock, forecast).flatMap(({ severity, words }) =>
      flow(style, [tone(severity === 'outage' ? 'bad' : 'plain', messageText(style, words))], 6, ['    ']),
    ),
  ];
}

/** Locks that take the server down come first, then those that block most statements. */
function weight({ sessionsRunOut, queued, waitsFor }: Lock): number {
  return (sessionsRunOut ? 1e15 : 0) + (queued ?? 0) * 1000 + (waitsFor?.ageMs ?? 0);
}
