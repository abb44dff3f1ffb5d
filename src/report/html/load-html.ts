import { formatCount, formatDuration } from '../../format.ts';
import type { LoadedRunSection, LoadSection, Report } from '../../model/report.ts';
import { loadDetails } from '../load-phrases.ts';
import { cutText, Html, html } from './escape-html.ts';
import { lanesOnAxis } from './timeline-html.ts';

const CHART_PX = 90;
const DEADLOCKS = 5;

type Part = LoadedRunSection['seconds'][number];

/** What the target's traffic felt on a second clone: throughput, latency and waiting sessions, and below them statements and locks. */
export function loadHtml({ load }: Report): Html | undefined {
  if (!load) return undefined;
  const { blocked, deadlocks, guarded } = load;
  return html`
<section aria-labelledby="load"><h2 id="load">Under load</h2>
<p class="dim">${load.origin}; ${formatCount(load.clients)} sessions. The marked time is that of the command.</p>
<ul>${loadDetails(load).map((words) => html`<li>${words}</li>`)}</ul>
${figure(load)}
${phases(load)}
${blocked.length > 0 ? blockedTable(blocked) : ''}
${deadlocks.map(({ victim, sql, detail }) => html`<div class="hazard error"><h3>Deadlock: ${victim === 'command' ? 'the command' : 'a transaction of the load'} was rolled back</h3><pre>${detail}${sql === null ? '' : `\n${cutText(sql, 400)}`}</pre></div>`).slice(0, DEADLOCKS)}
${guarded ? html`<h3>With the guardrails of an apply</h3>${comparison(load, guarded)}<details><summary>Over time</summary>${figure(guarded)}${phases(guarded)}</details>` : ''}
</section>`;
}

/** All on one axis of time, from the start of the load to its end. */
function figure(run: LoadedRunSection): Html {
  const { seconds, command } = run;
  const last = seconds.at(-1);
  const totalMs = Math.max(last ? last.atMs + last.durationMs : 0, command.endedMs, 1);
  const percent = (ms: number) => `${((ms / totalMs) * 100).toFixed(3)}%`;
  const perSecond = (count: number, { durationMs }: Part) => (count * 1000) / Math.max(durationMs, 1);
  const charts: [string, (part: Part) => number, (value: number) => string][] = [
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

function phases(run: LoadedRunSection): Html {
  return html`<div class="wide"><table><thead><tr><th>part</th><th class="num">transactions</th><th class="num">a second</th><th class="num">failed</th><th class="num">p50</th><th class="num">p95</th><th class="num">p99</th><th class="num">longest</th></tr></thead>
<tbody>${(['before', 'during', 'after'] as const).map((name) => phaseRow(name, run[name]))}</tbody></table></div>`;
}

function phaseRow(name: string, phase: LoadSection['before']): Html {
  const { transactions, failures, durationMs, p50Ms, p95Ms, p99Ms, maxMs } = phase;
  const cells = [p50Ms, p95Ms, p99Ms, maxMs].map((value) => (value === null ? '-' : formatDuration(value)));
  const perSecond = wholeCount((transactions * 1000) / Math.max(durationMs, 1));
  return html`<tr><td>${name}</td>${[formatCount(transactions), perSecond, formatCount(failures), ...cells].map((cell) => html`<td class="num">${cell}</td>`)}</tr>`;
}

function blockedTable(blocked: LoadSection['blocked']): Html {
  return html`<div class="wide"><table><thead><tr><th>waited for</th><th>behind</th><th class="num">sessions</th><th class="num">longest</th><th class="num">in all</th></tr></thead>
<tbody>${blocked.map(({ relation, statement, sql, sessions, longestMs, blockedMs }) => html`<tr><td><code>${relation ?? 'other locks'}</code></td><td class="sql">${statement === null ? '-' : `${statement}. ${cutText(sql ?? '', 200)}`}</td><td class="num">${formatCount(sessions)}</td><td class="num">${formatDuration(longestMs)}</td><td class="num">${formatDuration(blockedMs)}</td></tr>`)}</tbody></table></div>`;
}

/** What the guardrails change. */
function comparison(plain: LoadedRunSection, guarded: NonNullable<LoadSection['guarded']>): Html {
  const rows: [string, (run: LoadedRunSection) => string][] = [
    [
      'the command',
      ({ command }) => (command.exitCode === 0 ? 'succeeded' : `failed (${command.exitCode ?? 'not ended'})`),
    ],
    ['its time', ({ command }) => formatDuration(command.endedMs - command.startedMs)],
    ['time in which somebody waited', ({ someWaitedMs }) => formatDuration(someWaitedMs)],
    ['waiting in all', ({ blockedMs }) => formatDuration(blockedMs)],
    ['longest wait', ({ longestWaitMs }) => formatDuration(longestWaitMs)],
    ['sessions that waited at once', ({ mostWaiting }) => formatCount(mostWaiting)],
    ['failed transactions', ({ during, after }) => formatCount(during.failures + after.failures)],
    ['deadlocks', ({ deadlocks }) => formatCount(deadlocks.length)],
  ];
  const { retries = [], cancelled = [] } = guarded.guardrails ?? {};
  return html`<div class="wide"><table><thead><tr><th></th><th class="num">without</th><th class="num">with</th></tr></thead>
<tbody>${rows.map(([name, read]) => html`<tr><td>${name}</td><td class="num">${read(plain)}</td><td class="num">${read(guarded)}</td></tr>`)}</tbody></table></div>
<ul>${[
    ...retries.map(
      ({ sql, failed, outcome }) =>
        html`<li><code>${cutText(sql, 200)}</code> failed ${formatCount(failed)} × because of a lock, and ${outcome}</li>`,
    ),
    ...cancelled.map(
      ({ sql, waiting }) =>
        html`<li><code>${cutText(sql, 200)}</code> was cancelled: ${formatCount(waiting)} sessions waited behind it</li>`,
    ),
  ]}</ul>`;
}

function wholeCount(value: number): string {
  return formatCount(Math.round(value));
}
