import { timeWords } from '../../hazards/evidence.ts';
import type { Report } from '../../model/report.ts';
import { basisWords, lockEffects, resourceWords } from '../phrases.ts';
import { code, prose } from './escape-markdown.ts';
import { PART, type Part } from './markdown-part.ts';

export function forecastPart({ forecast: expected, load }: Report): Part | undefined {
  if (!expected) return undefined;
  // What was measured under load takes the place of what would be expected.
  const forecast = load ? { ...expected, locks: [] } : expected;
  const rate = (perSecond: number | null) => (perSecond === null ? '?' : `${perSecond.toFixed(1)}/s`);
  const meaning = (lock: (typeof forecast.locks)[number]) =>
    lock.queued === null
      ? '?'
      : lockEffects(lock, forecast)
          .map(({ words }) => prose(words))
          .join('; ') || 'no session would wait';
  const resources = resourceWords(forecast).map((words) => `- ${prose(words)}`);
  const part = { ...PART, title: `Forecast for the target, ${prose(basisWords(forecast))}`, importance: 7 };
  if (forecast.locks.length === 0) return { ...part, items: resources };
  return {
    ...part,
    head: ['| relation | lock | held | reads, rows written | effect |', '|---|---|---|---|---|'],
    items: forecast.locks.map(
      (lock) =>
        `| ${code(lock.relation)} | ${lock.mode} | ${lock.heldMs === null ? '?' : timeWords(lock.heldMs, lock.atProductionSize)} | ` +
        `${rate(lock.readsPerSecond)}, ${rate(lock.writesPerSecond)} | ${meaning(lock)} |`,
    ),
    foot: resources.length === 0 ? [] : ['', ...resources],
  };
}
