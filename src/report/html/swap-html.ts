import { formatDuration } from '../../format.ts';
import type { Report, SwapSection } from '../../model/report.ts';
import { swapWords } from '../phrases.ts';
import { type Html, html } from './escape-html.ts';
import { stateHeader } from './page-state.ts';
import { bar, facts, tableHtml } from './parts-html.ts';

/** The state of the target after `safemigrate swap`, how long no session could connect to it, and how to go back. */
export function swapHtml({ swap, target }: Report): Html | undefined {
  if (swap === null) return undefined;
  const { outcome, reasons, steps } = swap;
  const rows = factsOf(swap);
  return html`
<section aria-label="Swap">${stateHeader(outcome === 'swapped' ? 'good' : 'bad', swapWords(swap, target.database), reasons)}
${rows.length > 0 && facts(rows)}${steps.length > 0 && stepTable(steps)}</section>`;
}

function factsOf({ outcome, original, stallMs, sessionsEnded }: SwapSection): [string, string | Html][] {
  const swapped = outcome === 'swapped';
  return [
    ...(stallMs === null ? [] : [['Closed', `for ${formatDuration(stallMs)}`] satisfies [string, string]]),
    ...(outcome === 'refused'
      ? []
      : [['Sessions terminated', String(sessionsEnded)] satisfies [string, string]]),
    ...(swapped
      ? ([
          ['Original', html`kept as <code>${original ?? '?'}</code>`],
          ['To go back', html`<code>safemigrate rollback</code>, as long as nothing has been written since`],
          [
            'Statistics',
            'cumulative statistics start at zero; the planner statistics are those of the original',
          ],
        ] satisfies [string, string | Html][])
      : []),
  ];
}

function stepTable(steps: SwapSection['steps']): Html {
  const longest = Math.max(...steps.map(({ durationMs }) => durationMs));
  return tableHtml(
    ['Step', 'Time'],
    steps.map(({ name, durationMs }) => [
      html`${name}`,
      html`${bar(durationMs, longest)} ${formatDuration(durationMs)}`,
    ]),
  );
}
