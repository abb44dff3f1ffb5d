import { formatBytes, formatCount, formatDuration, formatTime, plural } from '../../format.ts';
import type { OnlineSection, Report, SwapSection } from '../../model/report.ts';
import { lagFigure } from '../html/timeline-html.ts';
import {
  AS_TEXT,
  type Block,
  drawing,
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
  const { outcome, reasons, online } = swap;
  const name = named(target.database);
  const closed = closedWords(swap);
  const words: Record<SwapSection['outcome'], { title: string; summary: Phrase }> = {
    swapped: { title: 'Swapped', summary: [name, ` is now the migrated clone${closed}`] },
    undone: {
      title: 'Swap undone',
      summary: [name, ` ${online ? NOT_MIGRATED : 'is open again, and as before'}${closed}`],
    },
    refused: { title: 'Not swapped', summary: 'nothing was changed' },
  };
  return [
    {
      id: 'swap',
      ...words[outcome],
      outcome: outcome === 'swapped' ? 'good' : 'bad',
      folds: 'never',
      importance: 10,
      blocks: [sentences(reasons), factsOf(swap), ...lagBlocks(online), stepTable(swap)],
    },
  ];
}

/** State of the target after an online swap that was undone: clients have written to it in the meantime. */
const NOT_MIGRATED = 'is open, not migrated, and has all that was written to it';

/** `, closed for 140 ms`; `, closed 11 times, for at most 5.3 s, 10.4 s in all`: an online swap closes the target several times. */
export function closedWords({ stallMs, closings }: Pick<SwapSection, 'stallMs' | 'closings'>): string {
  if (stallMs === null) return '';
  const often = closings.length === 1 ? '' : ` ${closings.length} times,`;
  return `, closed${often} ${timesWords(closings, stallMs)}`;
}

/** `for 510 ms`, `for at most 5.3 s, 10.4 s in all` */
function timesWords(closings: SwapSection['closings'], longestMs: number): string {
  if (closings.length === 1) return `for ${formatDuration(longestMs)}`;
  const totalMs = closings.reduce((sum, { durationMs }) => sum + durationMs, 0);
  return `for at most ${formatDuration(longestMs)}, ${formatDuration(totalMs)} in all`;
}

function factsOf(swap: SwapSection): FactList {
  const { outcome, original, keepUntil, sessionsEnded, steps, online } = swap;
  const took = steps.map(({ name, durationMs }) => `${name} ${formatDuration(durationMs)}`).join(', ');
  const kept = keepUntil === null ? '' : `, to be kept until ${formatTime(keepUntil)}`;
  const isSwapped = outcome === 'swapped';
  return factList([
    ...onlineFacts(swap),
    ['Unproved', isSwapped && online && online.notCompared.length > 0 ? byScript(online) : null],
    ['Original', isSwapped ? ['kept as ', named(original ?? '?'), kept] : null],
    ['Way back', online?.wayBack ? wayBackWords(online.wayBack) : null],
    ['To undo', isSwapped ? undoing(online) : null],
    ['Now', isSwapped ? STATISTICS : null],
    ['Sessions', outcome === 'refused' ? null : `${formatCount(sessionsEnded)} terminated`],
    ['Steps', took === '' ? null : took, [...AS_TEXT, 'markdown']],
  ]);
}

/** Costs and proof of an online swap, or of a rollback that keeps all writes; none of another one. */
export function onlineFacts({
  online,
  closings,
}: SwapSection): (readonly [name: string, words: string | null])[] {
  if (!online) return [];
  return [
    ['Closed', closures(online, closings)],
    ['Client', gaps(online)],
    ['Catch-up', catchUpWords(online)],
    ['Compared', proof(online)],
  ];
}

/**
 * `260 ms for the clone, 140 ms for the cut-over, at attempt 3; given up: 2 attempts before that, for at most 510 ms, 1 s in all`. A
 * rollback makes no clone.
 */
function closures(online: OnlineSection, closings: SwapSection['closings']): string | null {
  const { cloneClosedMs, cutOverClosedMs, attempts, postponedMs } = online;
  const cutOvers = closings.filter(({ purpose }) => purpose === 'cut-over');
  const givenUp = cutOverClosedMs === null ? cutOvers : cutOvers.slice(0, -1);
  const at = givenUp.length === 0 ? '' : `, at attempt ${attempts}`;
  const words = [
    ...(cloneClosedMs === null ? [] : [`${formatDuration(cloneClosedMs)} for the clone`]),
    ...(cutOverClosedMs === null ? [] : [`${formatDuration(cutOverClosedMs)} for the cut-over${at}`]),
  ].join(', ');
  const which = cutOverClosedMs === null ? 'at the cut-over' : 'before that';
  const waste =
    givenUp.length === 0
      ? []
      : [`given up: ${plural(givenUp.length, 'attempt')} ${which}, ${timesWords(givenUp, longestOf(givenUp))}`];
  const waited = postponedMs === null ? [] : [`postponed for ${formatDuration(postponedMs)}`];
  const all = [...(words === '' ? [] : [words]), ...waste, ...(cutOverClosedMs === null ? [] : waited)];
  return all.length === 0 ? null : all.join('; ');
}

function longestOf(closings: SwapSection['closings']): number {
  return Math.max(...closings.map(({ durationMs }) => durationMs));
}

/** `public.orders.total, public.addresses: --catch-up fills them` */
function byScript({ notCompared }: OnlineSection): string {
  return `${notCompared.join(', ')}: --catch-up fills ${notCompared.length === 1 ? 'it' : 'them'}`;
}

/** `no answer for 281 ms around the clone, for 160 ms around the cut-over` */
function gaps({ cloneClosedMs, cloneGapMs, cutOverClosedMs, cutOverGapMs }: OnlineSection): string | null {
  const times = [
    { closedMs: cloneClosedMs, gapMs: cloneGapMs, what: 'the clone' },
    { closedMs: cutOverClosedMs, gapMs: cutOverGapMs, what: 'the cut-over' },
  ].filter(({ closedMs }) => closedMs !== null);
  if (times.length === 0) return null;
  if (times.every(({ gapMs }) => gapMs === null)) return UNMEASURED;
  const words = times.map(({ gapMs, what }) =>
    gapMs === null ? `not measured around ${what}` : `for ${formatDuration(gapMs)} around ${what}`,
  );
  return `no answer ${words.join(', ')}`;
}

const UNMEASURED = 'not measured: its role may have no further session, or PgBouncer pools sessions';

/** `fell behind by at most 120 MB of WAL, caught up in 12 s` */
function catchUpWords({ lag, catchUpMs }: OnlineSection): string | null {
  if (lag.length === 0) return null;
  const most = formatBytes(Math.max(...lag.map(({ behindBytes }) => behindBytes)));
  const caughtUp = catchUpMs === null ? '' : `, caught up in ${formatDuration(catchUpMs)}`;
  return `fell behind by at most ${most} of WAL${caughtUp}`;
}

/** `1,204,112 rows in 8.1 s, equal; 3 changed at each look` */
function proof({ rowsCompared, rowsUnsettled, compareMs }: OnlineSection): string | null {
  if (rowsCompared === null) return null;
  const compared = `${plural(rowsCompared, 'row')} in ${formatDuration(compareMs ?? 0)}, equal`;
  const unsettled =
    (rowsUnsettled ?? 0) === 0 ? '' : `; ${formatCount(rowsUnsettled ?? 0)} changed at each look`;
  return `${compared}${unsettled}`;
}

function lagBlocks(online: OnlineSection | undefined): Block[] {
  return online === undefined || online.lag.length === 0 ? [] : [drawing(() => lagFigure(online))];
}

/** `the original follows until 2025-01-02 09:00, and process 4711 on this machine ends it then; not taken back, or in its way: NULL in public.orders.code` */
function wayBackWords({
  until,
  watchdogPid,
  limits,
  failure,
}: NonNullable<OnlineSection['wayBack']>): string {
  if (until === null) return `none: ${failure ?? 'it was not started'}`;
  const without = limits.length === 0 ? '' : `; not taken back, or in its way: ${limits.join('; ')}`;
  const end = watchdogPid === null ? '' : `, and process ${watchdogPid} on this machine ends it then`;
  return `the original follows until ${formatTime(until)}${end}${without}`;
}

function undoing(online: OnlineSection | undefined): Phrase {
  const command = named('safemigrate rollback');
  return online?.wayBack?.until ? [command, KEEPS] : [command, ROLLBACK, named('--discard-writes')];
}

const KEEPS = ', which keeps all that has been written since';
const ROLLBACK = '; it gives up what has been written since only with ';
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
