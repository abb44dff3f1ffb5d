import type { Report } from '../model/report.ts';
import { applySection } from './text/apply-text.ts';
import { askedSections, querySection } from './text/checks-text.ts';
import { dataSection } from './text/data-text.ts';
import { forecastSection } from './text/forecast-text.ts';
import { hazardSection } from './text/hazards-text.ts';
import { cleanupSection, limitsSection, wayBackSection } from './text/outcome-text.ts';
import { runSection } from './text/run-text.ts';
import { schemaSection } from './text/schema-text.ts';
import { failureSection, statementSection } from './text/statements-text.ts';
import { swapSection } from './text/swap-text.ts';
import { targetChangesSection, verdictSection } from './text/verdict-text.ts';
import type { TextStyle } from './text-layout.ts';

/**
 * The report for a person at a terminal: what was decided and why, then what to worry about, then what was measured.
 * Ends in a newline. No line is wider than the terminal, and nothing from outside reaches it unescaped.
 */
export function renderText(report: Report, style: TextStyle): string {
  const sections = [
    applySection(report, style),
    swapSection(report, style),
    verdictSection(report, style),
    targetChangesSection(report, style),
    runSection(report, style),
    ...(report.verdict.pass ? [] : [failureSection(report, style)]),
    hazardSection(report, style),
    querySection(report, style),
    ...askedSections(report, style),
    schemaSection(report, style),
    dataSection(report, style),
    statementSection(report, style),
    forecastSection(report, style),
    ...(report.verdict.pass ? [failureSection(report, style)] : []),
    wayBackSection(report, style),
    limitsSection(report, style),
    cleanupSection(report, style),
  ];
  const lines = sections.filter((lines) => lines.length > 0).map((lines) => lines.join('\n'));
  return `${lines.join('\n\n')}\n`;
}
