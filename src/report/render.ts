import { extname } from 'node:path';
import type { TextStyle } from './layout.ts';
import { type Report, report as reportModel } from './model.ts';
import { renderText } from './text.ts';
import { visibleJson } from './visible.ts';

export type ReportFormat = 'text' | 'json';

const ENDINGS = new Map<string, ReportFormat>([
  ['.json', 'json'],
  ['.txt', 'text'],
]);

/** The report as one string that ends in a newline; `style` only matters to the formats for a terminal. */
export function render(report: Report, format: ReportFormat, style: TextStyle): string {
  return format === 'json' ? renderJson(report) : renderText(report, style);
}

/** The format that a file's ending asks for, or undefined where there is none for it. */
export function formatOfFile(path: string): ReportFormat | undefined {
  return ENDINGS.get(extname(path).toLowerCase());
}

export function formatEndings(): string[] {
  return [...ENDINGS.keys()];
}

function renderJson(report: Report): string {
  // The model gives the keys its own order. A report that it refuses is a mistake of ours, but at the end of a run it
  // is still worth more printed than thrown away.
  const parsed = reportModel.safeParse(report);
  return `${visibleJson(JSON.stringify(parsed.success ? parsed.data : report, null, 2))}\n`;
}
