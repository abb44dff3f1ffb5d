import { formatBytes, formatCount, formatDuration } from '../../format.ts';
import { timeWords } from '../../hazards/evidence.ts';
import type { ForecastSection, Report } from '../../model/report.ts';
import { basisWords, lockEffects, resourceWords, transactionWords } from '../phrases.ts';
import { type Html, html } from './escape-html.ts';
import { facts, listHtml, section, tableHtml } from './parts-html.ts';

type Lock = ForecastSection['locks'][number];

/** What would happen on the target, with all inputs of the estimate: nothing here was measured on the target. */
export function forecastHtml({ forecast, load }: Report): Html | undefined {
  if (forecast === null) return undefined;
  const { locks } = forecast;
  const resources = listHtml(resourceWords(forecast));
  return section('forecast', 'Forecast for the target', [
    html`<p>Not measured, but estimated ${basisWords(forecast)}.</p>`,
    load
      ? html`<p>Who waits for locks was measured: see <a href="#load">under load</a>.</p>`
      : locks.length === 0
        ? html`<p>No lock was held that blocks reads or writes.</p>`
        : tableHtml(
            ['Lock', 'Effect', 'Reads', 'Rows written'],
            locks.map((lock) => lockCells(lock, forecast)),
          ),
    ...(resources ? [resources] : []),
    inputs(forecast),
  ]);
}

function lockCells(lock: Lock, forecast: ForecastSection): Html[] {
  const { relation, mode, statement, heldMs, blocks, readsPerSecond, writesPerSecond, atProductionSize } =
    lock;
  const held = heldMs === null ? 'for an unmeasured time' : `for ${timeWords(heldMs, atProductionSize)}`;
  return [
    html`<code>${relation}</code><div>${mode} ${held}</div><div class="dim">blocks ${blocks.join(', ')}, <a href="#statement-${statement}">statement ${statement}</a></div>`,
    meaning(lock, forecast),
    html`${known(readsPerSecond, perSecond)}`,
    html`${known(writesPerSecond, perSecond)}`,
  ];
}

function meaning(lock: Lock, forecast: ForecastSection): Html {
  const effects = lockEffects(lock, forecast);
  if (effects.length > 0)
    return html`${effects.map(({ severity, words }) => html`<div${severity === 'outage' && ALARMING}>${words}</div>`)}`;
  return lock.queued === null
    ? html`<span class="dim">${UNKNOWN}</span>`
    : html`<span class="dim">at this traffic no session would wait</span>`;
}

const ALARMING = html` class="bad"`;

function inputs(forecast: ForecastSection): Html {
  const { sampledMs, transactionsPerSecond, sessions, oldestTransaction, preparedTransactions, wal, disk } =
    forecast;
  const rows: [string, string][] = [
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
    ['Inactive replication slots', wal.inactiveSlots.length === 0 ? 'none' : wal.inactiveSlots.join(', ')],
    [
      'Disk at the peak',
      `needed: ${known(disk.neededBytes, formatBytes)}; free: ${known(disk.freeBytes, formatBytes)}`,
    ],
  ];
  return html`<details><summary>Inputs of the estimate</summary>${facts(rows)}</details>`;
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
