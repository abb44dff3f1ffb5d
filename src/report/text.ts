import type { Report } from '../model/report.ts';
import { applyText } from './text/apply-text.ts';
import { askedSections, queriesText } from './text/checks-text.ts';
import { dataText } from './text/data-text.ts';
import { forecastText } from './text/forecast-text.ts';
import { hazardsText } from './text/hazards-text.ts';
import { cleanupSection, limitsSection, rollbackText } from './text/outcome-text.ts';
import { runText } from './text/run-text.ts';
import { schemaText } from './text/schema-text.ts';
import { failureSection, statementsText } from './text/statements-text.ts';
import { swapText } from './text/swap-text.ts';
import { targetChangesSection, verdictText } from './text/verdict-text.ts';
import type { TextStyle } from './text-layout.ts';

/**
 * The report for a person at a terminal: what was decided and why, then what to worry about, then what was measured.
 * Ends in a newline. No line is wider than the terminal, and nothing from outside reaches it unescaped.
 */
export function renderText(report: Report, style: TextStyle): string {
  const sections = [
    applyText(report, style),
    swapText(report, style),
    verdictText(report, style),
    targetChangesSection(report, style),
    runText(report, style),
    ...(report.verdict.pass ? [] : [failureSection(report, style)]),
    hazardsText(report, style),
    queriesText(report, style),
    ...askedSections(report, style),
    schemaText(report, style),
    dataText(report, style),
    statementsText(report, style),
    forecastText(report, style),
    ...(report.verdict.pass ? [failureSection(report, style)] : []),
    rollbackText(report, style),
    limitsSection(report, style),
    cleanupSection(report, style),
  ];
  const lines = sections.filter((lines) => lines.length > 0).map((lines) => lines.join('\n'));
  return `${lines.join('\n\n')}\n`;
}
