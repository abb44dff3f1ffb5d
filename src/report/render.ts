import type { ReportFormat } from './formats.ts';
import type { TextStyle } from './layout.ts';
import { type Report, report as reportModel } from './model.ts';
import { renderText } from './text.ts';
import { visibleJson } from './visible.ts';

/** The report as one string that ends in a newline; `style` only matters to the formats for a terminal. */
export function render(report: Report, format: ReportFormat, style: TextStyle): string {
  return format === 'json' ? renderJson(report) : renderText(report, style);
}

function renderJson(report: Report): string {
  // The model gives the keys its own order. A report that it refuses is a mistake of ours, but at the end of a run it
  // is still worth more printed than thrown away.
  const parsed = reportModel.safeParse(report);
  return `${visibleJson(JSON.stringify(parsed.success ? parsed.data : report, null, 2))}\n`;
}
