import { formatDuration } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { proposalFigures, proposalWords } from '../proposal-phrases.ts';
import { type Html, html } from './escape-html.ts';
import { lanesOnAxis } from './timeline-html.ts';

type CommandRun = Pick<Report, 'statements' | 'transactions'>;

/** What came of --propose: figures, and the two runs on one axis of time. */
export function proposalHtml(report: Report): Html | undefined {
  const { proposal } = report;
  if (!proposal) return undefined;
  const figures = proposalFigures(proposal);
  const runs: [string, CommandRun][] = [
    ['As it is', report],
    ['Safer form', proposal],
  ];
  const totalMs = Math.max(1, ...runs.map(([, run]) => spanOf(run).totalMs));
  return html`
<section aria-labelledby="proposal"><h2 id="proposal">Safer form</h2>
<ul>${proposalWords(proposal).map((words) => html`<li>${words}</li>`)}</ul>
${
  figures.length > 0 &&
  html`<div class="wide"><table><thead><tr><th></th><th class="num">original</th><th class="num">safer</th></tr></thead>
<tbody>${figures.map(([name, was, is]) => html`<tr><td>${name}</td><td class="num">${was}</td><td class="num">${is}</td></tr>`)}</tbody></table></div>
<p class="dim">Both on one axis of ${formatDuration(totalMs)}.</p>
${runs.map(([name, run]) => figureOf(name, run, totalMs))}`
}
</section>`;
}

function figureOf(name: string, run: CommandRun, totalMs: number): Html {
  const percent = (ms: number) => `${((ms / totalMs) * 100).toFixed(3)}%`;
  const { names, svg } = lanesOnAxis(run, spanOf(run).startMs, percent);
  return html`<h3>${name}</h3><figure class="timeline"><div class="names">${names}</div><div class="scroll">${svg}</div></figure>`;
}

function spanOf({ statements }: CommandRun): { startMs: number; totalMs: number } {
  if (statements.length === 0) return { startMs: 0, totalMs: 0 };
  const starts = statements.map(({ startedAt }) => Date.parse(startedAt));
  const startMs = starts.reduce((one, other) => Math.min(one, other));
  const endMs = statements.reduce(
    (latest, { durationMs }, index) => Math.max(latest, (starts[index] ?? 0) + durationMs),
    startMs,
  );
  return { startMs, totalMs: endMs - startMs };
}
