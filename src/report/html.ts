import { createHash } from 'node:crypto';
import type { Report } from '../model/report.ts';
import { Html, html } from './html/escape-html.ts';
import { forecastHtml } from './html/forecast-html.ts';
import { loadHtml } from './html/load-html.ts';
import { SCRIPT } from './html/page-script.ts';
import { STYLE } from './html/page-style.ts';
import { proposalHtml } from './html/proposal-html.ts';
import {
  caveatSection,
  dataHtml,
  factSection,
  hazardsHtml,
  lossSection,
  rollbackHtml,
  schemaHtml,
  verdictHtml,
} from './html/sections-html.ts';
import { statementTable } from './html/statements-html.ts';
import { swapHtml } from './html/swap-html.ts';
import { timeline } from './html/timeline-html.ts';
import { swapWords } from './phrases.ts';
import { applyView, outcomeOf } from './sections/apply-view.ts';
import { checkViews } from './sections/checks-view.ts';
import { queriesView } from './sections/queries-view.ts';
import { scriptView } from './sections/script-view.ts';
import { viewHtml } from './view/html-view.ts';
import { plainPhrase } from './view/section.ts';

/**
 * Renders the report as one page that needs no network and no other file. The policy in its head forbids every script but our
 * own, so that no statement, name or error message could run even if it were not escaped.
 */
export function renderHtml(report: Report): string {
  const parts = [
    ...viewHtml(applyView(report)),
    swapHtml(report),
    verdictHtml(report),
    factSection(report),
    hazardsHtml(report),
    proposalHtml(report),
    ...viewHtml(scriptView(report)),
    lossSection(report),
    ...viewHtml([...queriesView(report), ...checkViews(report)]),
    loadHtml(report),
    timeline(report),
    forecastHtml(report),
    schemaHtml(report),
    dataHtml(report),
    statementTable(report),
    rollbackHtml(report),
    caveatSection(report),
  ].filter((part) => part !== undefined);
  return htmlPage(`${titleOf(report)}, safemigrate ${report.run.id}`, parts);
}

/** A whole page. The policy in its head forbids every script but ours. */
export function htmlPage(title: string, parts: readonly Html[]): string {
  const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src '${hashOf(SCRIPT)}'; base-uri 'none'; form-action 'none'`;
  return `${
    html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${title}</title>
<style>${new Html(STYLE)}</style></head>
<body><main>${parts}</main>
<script>${new Html(SCRIPT)}</script></body></html>`.text
  }\n`;
}

function titleOf(report: Report): string {
  const { apply, swap, verdict, target } = report;
  const { database } = target;
  if (apply !== null) {
    const { title, summary } = outcomeOf(apply, report);
    return `${title}: ${plainPhrase(summary)}`;
  }
  if (swap !== null) return swapWords(swap, database);
  return `${verdict.pass ? 'Passed' : 'Did not pass'}: ${database}`;
}

function hashOf(script: string): string {
  return `sha256-${createHash('sha256').update(script).digest('base64')}`;
}
