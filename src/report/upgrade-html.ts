import { formatBytes, formatDuration, plural } from '../format.ts';
import type { ModeSection, UpgradeObstacle, UpgradePhase, UpgradeReport } from '../model/upgrade-model.ts';
import { type Html, html } from './html/escape-html.ts';
import { bar, facts, listHtml, section, tableHtml } from './html/parts-html.ts';
import { caveatSection } from './html/sections-html.ts';
import { statementTable } from './html/statements-html.ts';
import { htmlPage } from './html.ts';
import {
  furtherReasons,
  notPassedWords,
  upgradeFacts,
  upgradeSummary,
  wayBackWords,
} from './upgrade-phrases.ts';

/** The report of an upgrade as one page that needs no network and no other file, with bars for each mode and its phases. */
export function renderUpgradeHtml(report: UpgradeReport): string {
  const { verdict, to, run } = report;
  const parts = [
    verdictPart(report),
    section('facts', 'Facts', [facts(upgradeFacts(report))]),
    modesPart(report),
    obstaclesPart(report),
    stepsPart(report),
    report.command === null ? undefined : statementTable(report.command),
    caveatSection(report),
  ].filter((part) => part !== undefined);
  const title = `${verdict.pass ? 'Passed' : 'Did not pass'}: upgrade to PostgreSQL ${to.major}`;
  return htmlPage(`${title}, safemigrate ${run.id}`, parts);
}

function verdictPart(report: UpgradeReport): Html {
  const { verdict, recommendation } = report;
  return html`<div class="verdict ${verdict.pass ? 'good' : 'bad'}"><h1>${verdict.pass ? 'Passed' : 'Did not pass'}: ${upgradeSummary(report)}</h1>
${listHtml(furtherReasons(report))}${
  recommendation && html`<p>Choose <code>--${recommendation.mode}</code>: ${recommendation.reason}.</p>`
}</div>`;
}

function modesPart({ modes, recommendation, carriesStatistics }: UpgradeReport): Html | undefined {
  if (modes.length === 0) return undefined;
  const passed = modes.filter(({ outcome }) => outcome === 'passed');
  const longest = Math.max(...passed.map(({ downtimeMs }) => downtimeMs ?? 0));
  const longestPhase = Math.max(
    ...passed.flatMap(({ phases }) => phases.map(({ durationMs }) => durationMs)),
  );
  const rows = passed.map((each) => [
    each.mode === recommendation?.mode
      ? html`<strong>${each.mode}</strong> (recommended)`
      : html`${each.mode}`,
    duration(each.downtimeMs ?? 0, longest),
    html`${each.peakBytes === null ? '?' : formatBytes(each.peakBytes)}`,
    html`${wayBackWords(each)}`,
  ]);
  const note = carriesStatistics
    ? undefined
    : html`<p>Users wait for the first stage of the statistics, too: without them plans are bad.</p>`;
  return section('modes', rows.length === 0 ? 'Modes' : 'How long users wait', [
    ...(rows.length === 0 ? [] : [tableHtml(['mode', 'users wait', 'disk', 'way back'], rows)]),
    ...passed.map((each) => phasesOf(each, longestPhase)),
    ...(note ? [note] : []),
    listHtml(modes.filter(({ outcome }) => outcome !== 'passed').map(notPassedWords)) ?? html``,
  ]);
}

/** Pale bars are of phases in which users work. @param longest in all modes, so that their bars compare. */
function phasesOf({ mode, phases }: ModeSection, longest: number): Html {
  const rows = phases.map(({ name, durationMs, down }) => [
    html`${name}`,
    duration(durationMs, longest, down),
    html`${down ? 'users wait' : 'users work'}`,
  ]);
  return html`<details open><summary>Phases of ${mode}</summary>${tableHtml(['phase', 'time', ''], rows)}</details>`;
}

function duration(ms: number, longest: number, down = true): Html {
  return html`<span class="num">${formatDuration(ms)}</span> ${bar(ms, longest, down ? '' : 'before')}`;
}

function obstaclesPart({ obstacles }: UpgradeReport): Html | undefined {
  return obstacles.length === 0
    ? undefined
    : section('obstacles', `In the way: ${plural(obstacles.length, 'finding')}`, obstacles.map(obstacleHtml));
}

function obstacleHtml({ code, severity, message, objects, count, remedy, sql }: UpgradeObstacle): Html {
  return html`<div class="hazard ${severity}"><h3><span class="tag ${severity}">${severity}</span> ${code}</h3><p>${message}</p>
<ul>${objects.map((object) => html`<li><code>${object}</code></li>`)}${
    count > objects.length && html`<li>and ${count - objects.length} more</li>`
  }</ul><p>Do: ${remedy}</p>${sql.length > 0 && html`<pre>${sql.join('\n')}</pre>`}</div>`;
}

function stepsPart({ modes, recommendation }: UpgradeReport): Html | undefined {
  const chosen = modes.find(({ mode }) => mode === recommendation?.mode);
  const steps: UpgradePhase['steps'] = chosen?.phases.find(({ name }) => name === 'pg_upgrade')?.steps ?? [];
  if (!chosen || steps.length === 0) return undefined;
  const longest = Math.max(...steps.map(({ durationMs }) => durationMs));
  const rows = steps.map(({ name, durationMs }) => [html`${name}`, duration(durationMs, longest)]);
  return section('steps', `The longest steps of pg_upgrade --${chosen.mode}`, [
    tableHtml(['step', 'time'], rows),
  ]);
}
