import type { Report } from '../../src/model/report.ts';
import { renderText } from '../../src/report/text.ts';

/** The block of README.md that `npm run transcript` writes. */
export const TRANSCRIPT_BLOCK = 'transcript';

/** The report as a terminal of 80 columns shows it. */
export function transcriptOf(report: Report): string {
  const text = renderText(report, { columns: 80, colour: false, unicode: true });
  return `\`\`\`text\n$ safemigrate -- ${report.command.argv.join(' ')}\n\n${text}\`\`\``;
}
