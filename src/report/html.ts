import { createHash } from 'node:crypto';
import type { Report } from '../model/report.ts';
import { Html, html } from './html/escape-html.ts';
import { forecastHtml } from './html/forecast-html.ts';
import { loadHtml } from './html/load-html.ts';
import { SCRIPT } from './html/page-script.ts';
import { STYLE } from './html/page-style.ts';
import { caveatSection, dataHtml, lossSection, rollbackHtml, schemaHtml } from './html/sections-html.ts';
import { statementTable } from './html/statements-html.ts';
import { timeline } from './html/timeline-html.ts';
import { checkViews } from './sections/checks-view.ts';
import { queriesView } from './sections/queries-view.ts';
import { findingViews, outcomeViews } from './sections/report-sections.ts';
import { runView } from './sections/run-view.ts';
import { cleanupView, targetSessionsView } from './sections/target-view.ts';
import { viewHtml } from './view/html-view.ts';

/**
 * Renders the report as one page that needs no network and no other file. The policy in its head forbids every script but our
 * own, so that no statement, name or error message could run even if it were not escaped.
 */
export function renderHtml(report: Report): string {
  const outcomes = outcomeViews(report);
  const parts = [
    ...viewHtml(outcomes),
    ...viewHtml([runView(report), ...targetSessionsView(report), ...findingViews(report)]),
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
    ...viewHtml(cleanupView(report)),
  ].filter((part) => part !== undefined);
  return htmlPage(`${outcomes[0]?.title}: ${report.target.database}, safemigrate ${report.run.id}`, parts);
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

function hashOf(script: string): string {
  return `sha256-${createHash('sha256').update(script).digest('base64')}`;
}
