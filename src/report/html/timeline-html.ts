import { formatBytes, formatCount, formatDuration } from '../../format.ts';
import { INTERNAL_RELATION } from '../../hazards/held-locks.ts';
import { sentStatements } from '../../model/repeated.ts';
import type { LoadedRunSection, OnlineSection, Report, StatementSection } from '../../model/report.ts';
import { LOCK_MODES } from '../../postgres/lock-modes.ts';
import { repetitionWords } from '../phrases.ts';
import { cutText, Html, html } from './escape-html.ts';
import { MODE_COLOURS } from './page-style.ts';

const LANE_PX = 24;
/** Relations beyond this number are left out: their locks are the weakest and the shortest. */
const LANES = 24;
/** So few that their labels have room on a phone; the script of the page draws as many as fit. */
const TICKS = 4;
const CHART_PX = 90;

interface Bar {
  readonly fromMs: number;
  readonly toMs: number;
  readonly statement: number | null;
  readonly kind: string;
  readonly colour?: string;
  readonly label: string;
}

interface Lane {
  readonly name: string;
  readonly bars: readonly Bar[];
}

/** Statements and transactions of a command in one run. */
type CommandRun = Pick<Report, 'statements' | 'transactions'>;

/** Bars of a run in a figure that shows other things as well. */
const BARS = 100;

type Second = LoadedRunSection['seconds'][number];

/** All on one axis of time, from the start of the load to its end. */
export function loadFigure(run: LoadedRunSection): Html {
  const { seconds, command } = run;
  const last = seconds.at(-1);
  const totalMs = Math.max(last ? last.atMs + last.durationMs : 0, command.endedMs, 1);
  const percent = (ms: number) => `${((ms / totalMs) * 100).toFixed(3)}%`;
  const perSecond = (count: number, { durationMs }: Second) => (count * 1000) / Math.max(durationMs, 1);
  const charts: [string, (part: Second) => number, (value: number) => string][] = [
    ['transactions a second', (part) => perSecond(part.transactions, part), wholeCount],
    ['failed a second', (part) => perSecond(part.failures, part), wholeCount],
    ['latency, 95 %', ({ p95Ms }) => p95Ms ?? 0, formatDuration],
    ['sessions that wait', ({ waiting }) => waiting, formatCount],
  ];
  const shown = charts.filter(
    ([name, read]) => !name.startsWith('failed') || seconds.some((each) => read(each) > 0),
  );
  const mark = html`<rect class="transaction" x="${percent(command.startedMs)}" width="${percent(Math.max(command.endedMs - command.startedMs, totalMs / 500))}" y="0" height="${CHART_PX}"/>`;
  const drawn = shown.map(([name, read, format]) => {
    const most = Math.max(...seconds.map(read), 0);
    const bars = seconds.map((part) => {
      const value = read(part);
      const height = (value / Math.max(most, 1)) * (CHART_PX - 8);
      return `<rect class="statement" x="${percent(part.atMs)}" width="${percent(part.durationMs * 0.95)}" y="${(CHART_PX - height).toFixed(1)}" height="${height.toFixed(1)}"><title>${formatDuration(part.atMs)}: ${format(value)}</title></rect>`;
    });
    return {
      name: html`<div class="chart">${name}<br><span class="dim">up to ${format(most)}</span></div>`,
      svg: html`<svg width="100%" height="${CHART_PX}" role="img" aria-label="${`${name} over ${formatDuration(totalMs)}, up to ${format(most)}`}">${mark}${new Html(bars.join(''))}</svg>`,
    };
  });
  const lanes = lanesOnAxis(run, Date.parse(run.startedAt), percent);
  return html`<figure class="load timeline"><div class="names">${drawn.map(({ name }) => name)}${lanes.names}</div><div class="scroll">${drawn.map(({ svg }) => svg)}${lanes.svg}</div></figure>`;
}

/** How far the clone of an online swap was behind, and the times for which the target was closed, on one axis. */
export function lagFigure({
  lag,
  cloneClosedMs,
  cutOverAtMs,
  cutOverClosedMs,
}: Pick<OnlineSection, 'lag' | 'cloneClosedMs' | 'cutOverAtMs' | 'cutOverClosedMs'>): Html {
  const startMs = -(cloneClosedMs ?? 0);
  const lastMs = lag.at(-1)?.atMs ?? 0;
  const totalMs = Math.max(lastMs, (cutOverAtMs ?? 0) + (cutOverClosedMs ?? 0), startMs + 1) - startMs;
  const percent = (ms: number) => `${((ms / totalMs) * 100).toFixed(3)}%`;
  const bar = (kind: string, fromMs: number, forMs: number, height: number, title: string) =>
    html`<rect class="${kind}" x="${percent(fromMs - startMs)}" width="${percent(forMs)}" y="${(CHART_PX - height).toFixed(1)}" height="${height.toFixed(1)}"><title>${title}</title></rect>`;
  const closed = (fromMs: number | null, forMs: number | null, why: string) => {
    if (fromMs === null || forMs === null) return null;
    const wide = Math.max(forMs, totalMs / 250);
    const visibleFromMs = Math.min(fromMs, startMs + totalMs - wide);
    return bar('statement failed', visibleFromMs, wide, CHART_PX, `closed ${why}: ${formatDuration(forMs)}`);
  };
  const most = Math.max(...lag.map(({ behindBytes }) => behindBytes), 0);
  const bars = lag.map(({ atMs, behindBytes }, at) => {
    const height = (behindBytes / Math.max(most, 1)) * (CHART_PX - 8);
    const title = `${formatDuration(atMs)}: ${formatBytes(behindBytes)} behind`;
    return bar('statement', atMs, (lag[at + 1]?.atMs ?? startMs + totalMs) - atMs, height, title);
  });
  const label = `WAL that the clone did not have yet over ${formatDuration(totalMs)}, up to ${formatBytes(most)}`;
  return html`<figure class="load timeline"><div class="names"><div class="chart">behind, in WAL<br><span class="dim">up to ${formatBytes(most)},<br>over ${formatDuration(totalMs)}</span></div></div><div class="scroll"><svg width="100%" height="${CHART_PX}" role="img" aria-label="${label}">${bars}${closed(startMs, cloneClosedMs, 'for the clone')}${closed(cutOverAtMs, cutOverClosedMs, 'for the cut-over')}</svg></div></figure>`;
}

function wholeCount(value: number): string {
  return formatCount(Math.round(value));
}

/** The lanes of one run on the time axis of another figure: their names, and what is drawn. @param startMs since 1970, where the axis begins. */
export function lanesOnAxis(
  run: CommandRun,
  startMs: number,
  percent: (ms: number) => string,
): { names: Html; svg: Html } {
  const lanes = [...sessionLanes(run), ...lockLanes(run)];
  const longest = (bars: readonly Bar[]) =>
    [...bars].sort((one, other) => other.toMs - other.fromMs - (one.toMs - one.fromMs)).slice(0, BARS);
  const drawn = lanes.map(({ bars }, lane) =>
    longest(bars)
      .map((bar) => ({ ...bar, fromMs: bar.fromMs - startMs, toMs: bar.toMs - startMs, statement: null }))
      .map((bar) => barOf(bar, lane - 1, percent))
      .join(''),
  );
  return {
    names: html`${lanes.map(({ name }) => html`<div title="${name}">${name}</div>`)}`,
    svg: html`<svg width="100%" height="${lanes.length * LANE_PX}" role="img" aria-label="${`${sentStatements(run.statements)} statements and their locks`}">${new Html(drawn.join(''))}</svg>`,
  };
}

/** Transactions and statements over time, and the locks below them. Positions are percentages, so that it can be zoomed. */
export function timeline(run: CommandRun): Html {
  const { statements } = run;
  const start = Math.min(...statements.map(startOf));
  const lanes = [...sessionLanes(run), ...lockLanes(run)].map(({ name, bars }) => ({
    name,
    bars: bars.map((bar) => ({ ...bar, fromMs: bar.fromMs - start, toMs: bar.toMs - start })),
  }));
  const totalMs = Math.max(1, ...lanes.flatMap(({ bars }) => bars.map(({ toMs }) => toMs)));
  const percent = (ms: number) => `${((ms / totalMs) * 100).toFixed(4)}%`;
  const height = (lanes.length + 1) * LANE_PX;
  const used = [...LOCK_MODES]
    .reverse()
    .filter((mode) =>
      statements.some(({ locks }) =>
        locks?.some((lock) => lock.mode === mode && !INTERNAL_RELATION.test(lock.relation)),
      ),
    );
  return html`
<p class="dim">Each lane is a session of the command or a relation that it locked. Hover over a bar, or use the arrow keys,
to see its statement. A lock is held until the end of its transaction.</p>
<div class="tools" id="zoom"><button type="button" data-zoom="2">Zoom in</button><button type="button" data-zoom="0.5">Zoom out</button><button type="button" data-zoom="0">Whole run</button></div>
<div class="timeline">
<div class="names"><div class="dim">${formatDuration(totalMs)}</div>${lanes.map(({ name }) => html`<div title="${name}">${name}</div>`)}</div>
<div class="scroll" id="lanes" data-ms="${totalMs}" tabindex="0" role="group" aria-label="Timeline of statements and locks">
<svg width="100%" height="${height}" role="img" aria-label="${`${sentStatements(statements)} statements in ${formatDuration(totalMs)}`}">
<g id="ticks">${ticks(totalMs, height)}</g>
${lanes.map(({ bars }, lane) => new Html(bars.map((bar) => barOf(bar, lane, percent)).join('')))}
</svg></div></div>
<div class="detail" id="detail" aria-live="polite"><span class="dim">No statement selected.</span></div>
<ul class="legend"><li><i style="background:var(--accent)"></i>statement</li><li><i style="background:var(--bar);opacity:.5"></i>transaction</li>${used.map((mode) => html`<li><i style="background:${MODE_COLOURS[mode]}"></i>${mode}</li>`)}</ul>`;
}

function barOf(
  { fromMs, toMs, statement, kind, colour, label }: Bar,
  lane: number,
  percent: (ms: number) => string,
): string {
  const inset = kind === 'transaction' ? 2 : 5;
  const fill = colour === undefined ? '' : html` fill="${colour}"`.text;
  const chosen = statement === null ? '' : html` data-statement="${statement}" tabindex="-1"`.text;
  return html`<rect class="${kind}" x="${percent(fromMs)}" width="${percent(Math.max(0, toMs - fromMs))}" y="${(lane + 1) * LANE_PX + inset}" height="${LANE_PX - 2 * inset}"${new Html(fill)}${new Html(chosen)} style="min-width:2px"><title>${label}</title></rect>`
    .text;
}

function ticks(totalMs: number, height: number): Html[] {
  return Array.from({ length: TICKS }, (_, index) => {
    const x = `${(index / TICKS) * 100}%`;
    return html`<line x1="${x}" x2="${x}" y1="0" y2="${height}"/><text x="${x}" dx="3" y="15">${formatDuration((totalMs * index) / TICKS)}</text>`;
  });
}

function startOf({ startedAt }: StatementSection): number {
  return Date.parse(startedAt);
}

/** Repeated statements have a bar from the first to the last. */
function endOf(statement: StatementSection): number {
  const { repeated, durationMs } = statement;
  return repeated ? Date.parse(repeated.lastStartedAt) + repeated.meanMs : startOf(statement) + durationMs;
}

function sessionLanes({ statements, transactions }: CommandRun): Lane[] {
  const sessions = [...new Set(statements.map(({ session }) => session))];
  return sessions.map((session) => ({
    name: `session ${session}`,
    bars: [
      ...transactions
        .filter((transaction) => transaction.session === session && transaction.endedAt !== null)
        .map(({ transaction, startedAt, endedAt, outcome }) => ({
          fromMs: Date.parse(startedAt),
          toMs: Date.parse(endedAt ?? startedAt),
          statement: null,
          kind: 'transaction',
          label: `transaction ${transaction}, ${outcome}`,
        })),
      ...statements
        .filter((statement) => statement.session === session)
        .map((statement) => ({
          fromMs: startOf(statement),
          toMs: endOf(statement),
          statement: statement.index,
          kind: statement.error === null ? 'statement' : 'statement failed',
          label: `${statement.index}. ${formatDuration(statement.durationMs)}: ${cutText(statement.sql, 200)}${statement.repeated ? ` (${repetitionWords(statement.repeated)})` : ''}`,
        })),
    ],
  }));
}

/** Relations with the strongest and longest locks come first. */
function lockLanes({ statements }: CommandRun): Lane[] {
  const lanes = new Map<string, { bars: Bar[]; weight: number }>();
  const modes: readonly string[] = LOCK_MODES;
  // The strongest lock of a relation is drawn last, on top of the others.
  const locks = statements
    .flatMap((statement) => (statement.locks ?? []).map((lock) => ({ statement, lock })))
    .toSorted((one, other) => modes.indexOf(one.lock.mode) - modes.indexOf(other.lock.mode));
  for (const { statement, lock } of locks) {
    const { relation, mode, heldMs, blocks } = lock;
    if (INTERNAL_RELATION.test(relation)) continue;
    const lane = lanes.get(relation) ?? { bars: [], weight: 0 };
    const held = heldMs ?? statement.durationMs;
    const fromMs = startOf(statement);
    lane.bars.push({
      fromMs,
      toMs: fromMs + held,
      statement: statement.index,
      kind: 'lock',
      colour: MODE_COLOURS[mode] ?? 'var(--bar)',
      label:
        `${mode} on ${relation} for ${heldMs === null ? 'an unmeasured time' : formatDuration(held)}` +
        `${blocks.length === 0 ? '' : `; blocks ${blocks.join(', ')}`}`,
    });
    lane.weight = Math.max(lane.weight, blocks.length * 1e9 + held);
    lanes.set(relation, lane);
  }
  return [...lanes]
    .toSorted(([, one], [, other]) => other.weight - one.weight)
    .slice(0, LANES)
    .map(([name, { bars }]) => ({ name, bars }));
}
