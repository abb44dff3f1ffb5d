import { formatBytes, formatCount, formatDuration, plural } from '../../format.ts';
import { timeWords } from '../../hazards/evidence.ts';
import type { ForecastSection, Report } from '../../model/report.ts';
import { basisWords, lockEffects, lockWaitWords, resourceWords, transactionWords } from '../phrases.ts';
import { tone } from '../text-layout.ts';
import {
  AS_TEXT,
  type Block,
  type Cell,
  type Item,
  named,
  ON_PAGES,
  type Phrase,
  type Section,
  type Table,
} from '../view/section.ts';

const LISTED = 5;
type Lock = ForecastSection['locks'][number];

/** Effects to expect on the target, with the inputs of the estimate: nothing here was measured on the target. */
export function forecastView({ forecast: expected, load }: Report): Section[] {
  if (expected === null) return [];
  // What was measured under load takes the place of what would be expected.
  const forecast = load ? { ...expected, locks: [] } : expected;
  const noLocks = load
    ? 'Who waits for locks was measured: see under load.'
    : 'No lock was held that blocks reads or writes.';
  const blocks: Block[] = [
    ...lockItems(forecast),
    { ...lockTable(forecast), shownIn: ON_PAGES },
    ...(forecast.locks.length > 0
      ? []
      : [{ kind: 'paragraph', text: noLocks, shownIn: ON_PAGES } satisfies Block]),
    {
      kind: 'items',
      items: lockWaitWords(forecast.lockWaits, "the target's server").map((text) => ({ text })),
    },
    { kind: 'items', items: resourceWords(forecast).map((text) => ({ text })), listed: LISTED },
  ];
  return [
    {
      id: 'forecast',
      title: 'Forecast',
      summary: `for the target, ${basisWords(forecast)}`,
      folds: 'in-comment',
      importance: 7,
      blocks,
      parts: [inputsView(forecast)],
    },
  ];
}

/** Locks that some session would notice, and how many others there are. */
function lockItems(forecast: ForecastSection): Block[] {
  const { locks } = forecast;
  const noticed = locks
    .filter((lock) => lockEffects(lock, forecast).length > 0)
    .sort((one, other) => weight(other) - weight(one));
  const rest = locks.filter(({ queued }) => queued !== null).length - noticed.length;
  const others = `at this traffic no session would wait for ${noticed.length > 0 ? 'the other ' : ''}${plural(rest, 'lock')}`;
  return [
    {
      kind: 'items',
      shownIn: AS_TEXT,
      listed: LISTED,
      items: noticed.map((lock) => lockItem(lock, forecast)),
    },
    { kind: 'items', shownIn: AS_TEXT, items: rest > 0 ? [{ text: others }] : [] },
  ];
}

function lockItem(lock: Lock, forecast: ForecastSection): Item {
  const { relation, mode, heldMs, statement, atProductionSize, blocks } = lock;
  const held = heldMs === null ? '' : ` for ${timeWords(heldMs, atProductionSize)}`;
  return {
    text: [
      tone(blocks.includes('reads') ? 'warning' : 'plain', mode),
      ' on ',
      named(relation),
      `${held} (`,
      { statement },
      `), blocks ${blocks.join(', ')}`,
    ],
    notes: effectPhrases(lock, forecast).map((text) => ({ text })),
  };
}

function effectPhrases(lock: Lock, forecast: ForecastSection): Phrase[] {
  return lockEffects(lock, forecast).map(({ severity, words }) =>
    severity === 'outage' ? [tone('bad', words)] : words,
  );
}

/** Locks that take the server down come first, then those that block most statements. */
function weight({ sessionsRunOut, queued, waitsFor }: Lock): number {
  return (sessionsRunOut ? 1e15 : 0) + (queued ?? 0) * 1000 + (waitsFor?.ageMs ?? 0);
}

/** All locks that block reads or writes, with the traffic of their relations. */
function lockTable(forecast: ForecastSection): Table {
  const titles = ['lock', 'held', 'blocks', 'reads', 'rows written', 'effect'];
  return {
    kind: 'table',
    columns: titles.map((title) => ({ title })),
    rows: forecast.locks.map((lock): Cell[] => {
      const { relation, mode, statement, heldMs, atProductionSize } = lock;
      return [
        [named(relation), ` ${mode} (`, { statement }, ')'],
        heldMs === null ? UNKNOWN : timeWords(heldMs, atProductionSize),
        lock.blocks.join(', '),
        known(lock.readsPerSecond, perSecond),
        known(lock.writesPerSecond, perSecond),
        effectCell(lock, forecast),
      ];
    }),
  };
}

function effectCell(lock: Lock, forecast: ForecastSection): Phrase {
  if (lock.queued === null) return UNKNOWN;
  const effects = effectPhrases(lock, forecast).flatMap((phrase, at) => [
    ...(at === 0 ? [] : ['; ']),
    ...(typeof phrase === 'string' ? [phrase] : phrase),
  ]);
  return effects.length === 0 ? 'at this traffic no session would wait' : effects;
}

function inputsView(forecast: ForecastSection): Section {
  const { sampledMs, transactionsPerSecond, sessions, oldestTransaction, preparedTransactions, wal, disk } =
    forecast;
  return {
    id: 'inputs',
    title: 'Inputs of the estimate',
    shownIn: ['html'],
    folds: 'always',
    importance: 1,
    blocks: [
      {
        kind: 'facts',
        facts: [
          ['Statistics sampled for', formatDuration(sampledMs)],
          ['Transactions', known(transactionsPerSecond, perSecond)],
          [
            'Sessions',
            `${formatCount(sessions.open)} open; ${formatCount(sessions.max)} possible, ${formatCount(sessions.reserved)} of them reserved`,
          ],
          ['Oldest transaction', oldestTransaction === null ? 'none' : transactionWords(oldestTransaction)],
          [
            'Prepared transactions',
            preparedTransactions.count === 0
              ? 'none'
              : `${formatCount(preparedTransactions.count)}, the oldest ${known(preparedTransactions.oldestMs, formatDuration)} old`,
          ],
          ['WAL written', known(wal.writtenBytes, formatBytes)],
          ['Standbys', standbyWords(wal.standbys)],
          [
            'Inactive replication slots',
            wal.inactiveSlots.length === 0 ? 'none' : wal.inactiveSlots.join(', '),
          ],
          [
            'Disk at the peak',
            `needed: ${known(disk.neededBytes, formatBytes)}; free: ${known(disk.freeBytes, formatBytes)}`,
          ],
        ],
      },
    ],
  };
}

function standbyWords(standbys: ForecastSection['wal']['standbys']): string {
  if (standbys === null) return UNKNOWN;
  if (standbys.length === 0) return 'none';
  return standbys
    .map(
      ({ name, synchronous, lagBytes, lagMs }) =>
        `${name}${synchronous ? ' (synchronous)' : ''}: ${known(lagBytes, formatBytes)} or ${known(lagMs, formatDuration)} behind`,
    )
    .join('; ');
}

const UNKNOWN = 'unknown';

function known(value: number | null, words: (value: number) => string): string {
  return value === null ? UNKNOWN : words(value);
}

function perSecond(rate: number): string {
  return `${rate.toFixed(1)}/s`;
}
