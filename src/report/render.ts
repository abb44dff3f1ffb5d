import type { Report } from '../model/report.ts';
import type { UpgradeReport } from '../model/upgrade-model.ts';
import type { ReportFormat, UpgradeFormat } from './formats.ts';
import { printedReportOf } from './printed-report.ts';
import type { TextStyle } from './text-layout.ts';
import { visibleJson } from './visible.ts';

/** Renders the report as one string that ends in a newline. Only the text format uses the style. */
export async function render(report: Report, format: ReportFormat, style: TextStyle): Promise<string> {
  switch (format) {
    case 'text':
      return (await import('./text.ts')).renderText(report, style);
    case 'json':
      return renderJson(report);
    case 'markdown':
      return (await import('./markdown.ts')).renderMarkdown(report);
    case 'html':
      return (await import('./html.ts')).renderHtml(report);
    case 'junit':
      return (await import('./junit.ts')).renderJunit(report);
    case 'summary':
      return (await import('./summary.ts')).renderSummary(report);
    case 'sarif':
      return (await import('./sarif.ts')).renderSarif(report);
  }
}

/** Renders the report of an upgrade. Only the text format uses the style. */
export async function renderUpgrade(
  report: UpgradeReport,
  format: UpgradeFormat,
  style: TextStyle,
): Promise<string> {
  switch (format) {
    case 'text':
      return (await import('./text.ts')).renderUpgradeText(report, style);
    case 'json':
      return `${visibleJson(JSON.stringify(report, null, 2))}\n`;
    case 'markdown':
      return (await import('./markdown.ts')).renderUpgradeMarkdown(report);
    case 'html':
      return (await import('./html.ts')).renderUpgradeHtml(report);
    case 'junit':
      return (await import('./junit.ts')).renderUpgradeJunit(report);
  }
}

/** The sections in the order of the model, which is not loaded here: that takes longer than rendering a report. */
const SECTIONS = [
  ...([
    'version',
    'exitCode',
    'run',
    'target',
    'clone',
    'command',
    'profile',
    'statements',
    'transactions',
    'schema',
    'data',
  ] as const),
  ...([
    'hazards',
    'caveats',
    'forecast',
    'queries',
    'checks',
    'rerun',
    'down',
    'atOnce',
    'app',
    'load',
    'proposal',
    'script',
    'targetConnections',
    'verdict',
  ] as const),
  ...(['apply', 'swap', 'cleanup'] as const),
] satisfies (keyof Report)[];

export function renderJson(report: Report): string {
  const printed = printedReportOf(report);
  const ordered = Object.fromEntries(SECTIONS.map((section) => [section, printed[section]]));
  return `${visibleJson(JSON.stringify(ordered, null, 2))}\n`;
}
