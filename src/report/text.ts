import type { Report } from '../model/report.ts';
import { checkViews } from './sections/checks-view.ts';
import { queriesView } from './sections/queries-view.ts';
import { findingViews, outcomeViews } from './sections/report-sections.ts';
import { runView } from './sections/run-view.ts';
import { cleanupView, targetSessionsView } from './sections/target-view.ts';
import { dataText } from './text/data-text.ts';
import { forecastText } from './text/forecast-text.ts';
import { loadText } from './text/load-text.ts';
import { caveatsText, rollbackText } from './text/outcome-text.ts';
import { schemaText } from './text/schema-text.ts';
import { failureSection, statementsText } from './text/statements-text.ts';
import type { TextStyle } from './text-layout.ts';
import { viewText } from './view/text-view.ts';

/**
 * The report for a person at a terminal: the verdict with its reasons, then what to worry about, then what was measured.
 * Ends in a newline. No line is wider than the terminal, and text from outside is escaped.
 */
export function renderText(report: Report, style: TextStyle): string {
  const sections = [
    ...viewText(outcomeViews(report), style),
    loadText(report, style),
    ...viewText([runView(report), ...targetSessionsView(report)], style),
    ...(report.verdict.pass ? [] : [failureSection(report, style)]),
    ...viewText([...findingViews(report), ...queriesView(report), ...checkViews(report)], style),
    schemaText(report, style),
    dataText(report, style),
    statementsText(report, style),
    forecastText(report, style),
    ...(report.verdict.pass ? [failureSection(report, style)] : []),
    rollbackText(report, style),
    caveatsText(report, style),
    ...viewText(cleanupView(report), style),
  ];
  const lines = sections.filter((lines) => lines.length > 0).map((lines) => lines.join('\n'));
  return `${lines.join('\n\n')}\n`;
}
