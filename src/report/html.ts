import { createHash } from 'node:crypto';
import type { Report } from '../model/report.ts';
import type { UpgradeReport } from '../model/upgrade-model.ts';
import { Html, html } from './html/escape-html.ts';
import { SCRIPT } from './html/page-script.ts';
import { STYLE } from './html/page-style.ts';
import { reportSections } from './sections/report-sections.ts';
import { upgradeView } from './sections/upgrade-view.ts';
import { viewHtml } from './view/html-view.ts';
import type { Section } from './view/section.ts';

export function renderHtml(report: Report): string {
  return htmlPage(report.target.database, reportSections(report), report.run.id);
}

/** The report of an upgrade, with bars for each mode and its phases. */
export function renderUpgradeHtml(report: UpgradeReport): string {
  return htmlPage(`upgrade to PostgreSQL ${report.to.major}`, upgradeView(report), report.run.id);
}

/**
 * Renders sections as one page that needs no network and no other file. The policy in its head forbids every script but our
 * own, so that no statement, name or error message could run even if it were not escaped.
 */
function htmlPage(subject: string, sections: readonly Section[], run: string): string {
  const policy = `default-src 'none'; style-src 'unsafe-inline'; script-src '${hashOf(SCRIPT)}'; base-uri 'none'; form-action 'none'`;
  const outcome = sections.find((section) => section.outcome !== undefined);
  return `${
    html`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<title>${`${outcome?.title}: ${subject}, safemigrate ${run}`}</title>
<style>${new Html(STYLE)}</style></head>
<body><main>${viewHtml(sections)}</main>
<script>${new Html(SCRIPT)}</script></body></html>`.text
  }\n`;
}

function hashOf(script: string): string {
  return `sha256-${createHash('sha256').update(script).digest('base64')}`;
}
