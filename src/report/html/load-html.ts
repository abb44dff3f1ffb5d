import { formatCount, formatDuration } from '../../format.ts';
import type { LoadSection, Report } from '../../model/report.ts';
import { loadHeadline } from '../load-phrases.ts';
import { cutText, Html, html } from './escape-html.ts';

const CHART_PX = 90;

/** What the target's traffic felt on a second clone: throughput, latency and waiting sessions over one axis of time. */
export function loadHtml({ load }: Report): Html | undefined {
  if (!load) return undefined;
  const { seconds, blocked, deadlocks } = load;
  const charts: [string, (second: LoadSection['seconds'][number]) => number, (value: number) => string][] = [
    ['transactions a second', ({ transactions }) => transactions, formatCount],
    ['failed', ({ failures }) => failures, formatCount],
    ['latency, 95 %', ({ p95Ms }) => p95Ms ?? 0, formatDuration],
    ['sessions that wait', ({ waiting }) => waiting, formatCount],
  ];
  const shown = charts.filter(([name, read]) => name !== 'failed' || seconds.some((each) => read(each) > 0));
  return html`
<section aria-labelledby="load"><h2 id="load">Under load</h2>
<p class="dim">${load.origin}; ${formatCount(load.clients)} sessions. The marked time is that of the command.</p>
<ul>${loadHeadline(load).map((words) => html`<li>${words}</li>`)}</ul>
${seconds.length > 0 ? shown.map(([name, read, format]) => chart(load, name, read, format)) : ''}
<div class="wide"><table><thead><tr><th>part</th><th class="num">transactions</th><th class="num">a second</th><th class="num">failed</th><th class="num">p50</th><th class="num">p95</th><th class="num">p99</th><th class="num">longest</th></tr></thead>
<tbody>${(['before', 'during', 'after'] as const).map((name) => phaseRow(name, load[name]))}</tbody></table></div>
${blocked.length > 0 ? blockedTable(blocked) : ''}
${deadlocks.map(({ victim, sql, detail }) => html`<div class="hazard error"><h3>Deadlock: ${victim === 'command' ? 'the command' : 'a transaction of the load'} was rolled back</h3><pre>${detail}${sql === null ? '' : `\n${cutText(sql, 400)}`}</pre></div>`).slice(0, 5)}
</section>`;
}

function phaseRow(name: string, phase: LoadSection['before']): Html {
  const { transactions, failures, durationMs, p50Ms, p95Ms, p99Ms, maxMs } = phase;
  const cells = [p50Ms, p95Ms, p99Ms, maxMs].map((value) => (value === null ? '-' : formatDuration(value)));
  const perSecond = Math.round((transactions * 1000) / Math.max(durationMs, 1));
  return html`<tr><td>${name}</td>${[formatCount(transactions), formatCount(perSecond), formatCount(failures), ...cells].map((cell) => html`<td class="num">${cell}</td>`)}</tr>`;
}

function blockedTable(blocked: LoadSection['blocked']): Html {
  return html`<div class="wide"><table><thead><tr><th>waited for</th><th>behind</th><th class="num">sessions</th><th class="num">longest</th><th class="num">in all</th></tr></thead>
<tbody>${blocked.map(({ relation, statement, sql, sessions, longestMs, blockedMs }) => html`<tr><td><code>${relation ?? 'other locks'}</code></td><td class="sql">${statement === null ? '-' : `${statement}. ${cutText(sql ?? '', 200)}`}</td><td class="num">${formatCount(sessions)}</td><td class="num">${formatDuration(longestMs)}</td><td class="num">${formatDuration(blockedMs)}</td></tr>`)}</tbody></table></div>`;
}

/** One value a second, as bars over time, with the time of the command marked. */
function chart(
  { seconds, command }: LoadSection,
  name: string,
  read: (second: LoadSection['seconds'][number]) => number,
  format: (value: number) => string,
): Html {
  const totalMs = Math.max(seconds.length * 1000, command.endedMs);
  const most = Math.max(1, ...seconds.map(read));
  const percent = (ms: number) => `${((ms / totalMs) * 100).toFixed(3)}%`;
  const bars = seconds.map((second) => {
    const value = read(second);
    const height = (value / most) * (CHART_PX - 4);
    const label = `${formatDuration(second.atMs)}: ${format(value)} ${name}`;
    return html`<rect class="statement" x="${percent(second.atMs)}" width="${percent(950)}" y="${(CHART_PX - height).toFixed(1)}" height="${height.toFixed(1)}"><title>${label}</title></rect>`
      .text;
  });
  return html`<figure class="load"><figcaption>${name}, up to ${format(most)}</figcaption><svg width="100%" height="${CHART_PX}" role="img" aria-label="${`${name} over ${formatDuration(totalMs)}, up to ${format(most)}`}"><rect class="transaction" x="${percent(command.startedMs)}" width="${percent(Math.max(command.endedMs - command.startedMs, totalMs / 500))}" y="0" height="${CHART_PX}"/>${new Html(bars.join(''))}</svg></figure>`;
}
