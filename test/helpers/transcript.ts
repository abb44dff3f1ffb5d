import type { Report } from '../../src/model/report.ts';
import { renderText } from '../../src/report/text.ts';

/** The block of README.md that `npm run transcript` writes. */
export const TRANSCRIPT_BLOCK = 'transcript';

/** What a reader is to see first; the rest is left out, and that is shown. */
const SECTIONS = /^(✓ PASSED|RUN|HAZARDS)/;
const LEFT_OUT = '…';
const LONGEST_LINES = 7;

/** The report as a terminal of 80 columns shows it, shortened. */
export function transcriptOf(report: Report): string {
  const text = renderText(report, { columns: 80, colour: false, unicode: true });
  const sections = text
    .trimEnd()
    .split('\n\n')
    .map((section) => (SECTIONS.test(section) ? shortened(section) : LEFT_OUT))
    .filter((section, index, all) => section !== LEFT_OUT || all[index - 1] !== LEFT_OUT);
  const shown = [`$ safemigrate -- ${report.command.argv.join(' ')}`, ...sections].join('\n\n');
  return `\`\`\`text\n${shown}\n\`\`\``;
}

function shortened(section: string): string {
  const lines = section.split('\n');
  return lines.length <= LONGEST_LINES ? section : [...lines.slice(0, LONGEST_LINES), '  …'].join('\n');
}
