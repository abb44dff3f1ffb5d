import { formatBytes, formatCount, formatDuration } from '../../format.ts';
import type { ForecastSection, Report } from '../../model/report.ts';
import { basisWords, lockForecastWords, resourceWords, transactionWords } from '../phrases.ts';
import { type Html, html } from './escape-html.ts';
import { facts, listHtml, section, tableHtml } from './parts-html.ts';

type Lock = ForecastSection['locks'][number];

/** What would happen on the target, and everything that this is reckoned from: nothing of it was measured there. */
export function forecastHtml({ forecast }: Report): Html | undefined {
  if (forecast === null) return undefined;
  const { locks } = forecast;
  const resources = listHtml(resourceWords(forecast));
  return section('forecast', 'Forecast for the target', [
    html`<p>Not measured but reckoned, ${basisWords(forecast)}.</p>`,
    locks.length === 0
      ? html`<p>No lock was held that keeps others from reading or writing.</p>`
      : tableHtml(
          ['Lock', 'What it would mean', 'Reads', 'Rows written'],
          locks.map((lock) => lockCells(lock, forecast)),
        ),
    ...(resources ? [resources] : []),
    inputs(forecast),
  ]);
}

function lockCells(lock: Lock, forecast: ForecastSection): Html[] {
  const { relation, mode, statement, heldMs, blocks, readsPerSecond, writesPerSecond } = lock;
  const held = heldMs === null ? 'for a time that was not measured' : `for ${formatDuration(heldMs)}`;
  return [
    html`<code>${relation}</code><div>${mode} ${held}</div><div class="dim">blocks ${blocks.join(', ')}, <a href="#statement-${statement}">statement ${statement}</a></div>`,
    meaning(lock, forecast),
    html`${known(readsPerSecond, perSecond)}`,
    html`${known(writesPerSecond, perSecond)}`,
  ];
}

function meaning(lock: Lock, forecast: ForecastSection): Html {
  const words = lockForecastWords(lock, forecast);
  if (words.length > 0)
    return html`${words.map((each) => html`<div${lock.sessionsRunOut && each.startsWith('SESSIONS') ? ALARMING : ''}>${each}</div>`)}`;
  return lock.queued === null
    ? html`<span class="dim">not known</span>`
    : html`<span class="dim">nobody would wait at this traffic</span>`;
}

const ALARMING = html` class="bad"`;

function inputs(forecast: ForecastSection): Html {
  const { sampledMs, transactionsPerSecond, sessions, oldestTransaction, preparedTransactions, wal, disk } =
    forecast;
  const rows: [string, string][] = [
    ['Looked at the target for', formatDuration(sampledMs)],
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
    ['Slots without a reader', wal.inactiveSlots.length === 0 ? 'none' : wal.inactiveSlots.join(', ')],
    [
      'Disk at the peak',
      `${known(disk.neededBytes, formatBytes)} needed, ${known(disk.freeBytes, formatBytes)} free`,
    ],
  ];
  return html`<details><summary>What it is reckoned from</summary>${facts(rows)}</details>`;
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

const UNKNOWN = 'not known';

function known(value: number | null, words: (value: number) => string): string {
  return value === null ? UNKNOWN : words(value);
}

function perSecond(rate: number): string {
  return `${rate.toFixed(1)}/s`;
}
