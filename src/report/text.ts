import type { Report } from '../model/report.ts';
import { applyView } from './sections/apply-view.ts';
import { checkViews } from './sections/checks-view.ts';
import { queriesView } from './sections/queries-view.ts';
import { scriptView } from './sections/script-view.ts';
import { dataText } from './text/data-text.ts';
import { forecastText } from './text/forecast-text.ts';
import { hazardsText } from './text/hazards-text.ts';
import { loadText } from './text/load-text.ts';
import { caveatsText, cleanupSection, rollbackText } from './text/outcome-text.ts';
import { proposalText } from './text/proposal-text.ts';
import { runText } from './text/run-text.ts';
import { schemaText } from './text/schema-text.ts';
import { failureSection, statementsText } from './text/statements-text.ts';
import { swapText } from './text/swap-text.ts';
import { targetChangesSection, verdictText } from './text/verdict-text.ts';
import type { TextStyle } from './text-layout.ts';
import { viewText } from './view/text-view.ts';

/**
 * The report for a person at a terminal: the verdict with its reasons, then what to worry about, then what was measured.
 * Ends in a newline. No line is wider than the terminal, and text from outside is escaped.
 */
export function renderText(report: Report, style: TextStyle): string {
  const sections = [
    ...viewText(applyView(report), style),
    swapText(report, style),
    verdictText(report, style),
    targetChangesSection(report, style),
    loadText(report, style),
    runText(report, style),
    ...(report.verdict.pass ? [] : [failureSection(report, style)]),
    hazardsText(report, style),
    proposalText(report, style),
    ...viewText([...scriptView(report), ...queriesView(report), ...checkViews(report)], style),
    schemaText(report, style),
    dataText(report, style),
    statementsText(report, style),
    forecastText(report, style),
    ...(report.verdict.pass ? [failureSection(report, style)] : []),
    rollbackText(report, style),
    caveatsText(report, style),
    cleanupSection(report, style),
  ];
  const lines = sections.filter((lines) => lines.length > 0).map((lines) => lines.join('\n'));
  return `${lines.join('\n\n')}\n`;
}
