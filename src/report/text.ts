import type { Report } from '../model/report.ts';
import type { UpgradeReport } from '../model/upgrade-model.ts';
import { reportSections } from './sections/report-sections.ts';
import { upgradeView } from './sections/upgrade-view.ts';
import type { TextStyle } from './text-layout.ts';
import type { Section } from './view/section.ts';
import { viewText } from './view/text-view.ts';

/** The report for a person at a terminal. */
export function renderText(report: Report, style: TextStyle): string {
  return textPage(reportSections(report), style);
}

/** The report of an upgrade, of which nothing is left to `--verbose`. */
export function renderUpgradeText(report: UpgradeReport, style: TextStyle): string {
  return textPage(upgradeView(report), { ...style, verbose: true });
}

/** Ends in a newline. No line is wider than the terminal, and text from outside is escaped. */
function textPage(sections: readonly Section[], style: TextStyle): string {
  const shown = viewText(sections, style).map((lines) => lines.join('\n'));
  return `${shown.join('\n\n')}\n`;
}
