import type { Report } from '../model/report.ts';
import type { UpgradeReport } from '../model/upgrade-model.ts';
import { endingLines, endingOf, upgradeEnding, type VerdictLine } from './ending.ts';
import { reportSections } from './sections/report-sections.ts';
import { rehearsalScreen, screenView } from './sections/screen-view.ts';
import { upgradeView } from './sections/upgrade-view.ts';
import type { TextStyle } from './text-layout.ts';
import type { Section } from './view/section.ts';
import { viewText } from './view/text-view.ts';

/** The report for a person at a terminal: the first screen, or all of it. The last line is the verdict. */
export function renderText(report: Report, style: TextStyle): string {
  const sections = style.verbose ? reportSections(report) : screenView(report);
  return textPage(sections, style, endingOf(report));
}

/** The rehearsal that a question is about. */
export function renderRehearsal(report: Report, style: TextStyle): string {
  return textPage(rehearsalScreen(report), style);
}

/** The report of an upgrade, of which nothing is left to `--verbose`. */
export function renderUpgradeText(report: UpgradeReport, style: TextStyle): string {
  return textPage(upgradeView(report), style, upgradeEnding(report));
}

/** Ends in a newline. No line is wider than the terminal, and text from outside is escaped. */
function textPage(sections: readonly Section[], style: TextStyle, ending?: VerdictLine): string {
  const shown = viewText(sections, style).map((lines) => lines.join('\n'));
  const last = ending === undefined ? [] : endingLines(ending, style);
  return `${[shown.join('\n\n'), ...last].join('\n')}\n`;
}
