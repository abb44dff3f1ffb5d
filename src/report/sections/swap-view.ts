import { formatCount, formatDuration, formatTime } from '../../format.ts';
import type { Report, SwapSection } from '../../model/report.ts';
import {
  AS_TEXT,
  type FactList,
  factList,
  named,
  type Phrase,
  type Section,
  sentences,
  type Table,
} from '../view/section.ts';

/** The state of the target after a swap, for how long it was closed, and how to go back. */
export function swapView({ swap, target }: Report): Section[] {
  if (swap === null) return [];
  const { outcome, reasons, stallMs } = swap;
  const name = named(target.database);
  const closed = stallMs === null ? '' : `, closed for ${formatDuration(stallMs)}`;
  const words: Record<SwapSection['outcome'], { title: string; summary: Phrase }> = {
    swapped: { title: 'Swapped', summary: [name, ` is now the migrated clone${closed}`] },
    undone: { title: 'Swap undone', summary: [name, ` is open again, and as before${closed}`] },
    refused: { title: 'Not swapped', summary: 'nothing was changed' },
  };
  return [
    {
      id: 'swap',
      ...words[outcome],
      outcome: outcome === 'swapped' ? 'good' : 'bad',
      folds: 'never',
      importance: 10,
      blocks: [sentences(reasons), factsOf(swap), stepTable(swap)],
    },
  ];
}

function factsOf({ outcome, original, keepUntil, sessionsEnded, steps }: SwapSection): FactList {
  const took = steps.map(({ name, durationMs }) => `${name} ${formatDuration(durationMs)}`).join(', ');
  const kept = keepUntil === null ? '' : `, to be kept until ${formatTime(keepUntil)}`;
  const isSwapped = outcome === 'swapped';
  return factList([
    ['Original', isSwapped ? ['kept as ', named(original ?? '?'), kept] : null],
    [
      'To undo',
      isSwapped ? [named('safemigrate rollback'), ', as long as nothing has been written since'] : null,
    ],
    ['Now', isSwapped ? STATISTICS : null],
    ['Sessions', outcome === 'refused' ? null : `${formatCount(sessionsEnded)} terminated`],
    ['Steps', took === '' ? null : took, [...AS_TEXT, 'markdown']],
  ]);
}

const STATISTICS = 'cumulative statistics start at zero; the planner statistics are those of the original';

function stepTable({ steps }: SwapSection): Table {
  const longest = Math.max(1, ...steps.map(({ durationMs }) => durationMs));
  return {
    kind: 'table',
    columns: [{ title: 'Step' }, { title: 'Time' }],
    rows: steps.map(({ name, durationMs }) => [
      name,
      { text: formatDuration(durationMs), bars: [{ share: durationMs / longest }] },
    ]),
    shownIn: ['html'],
  };
}
