import type { ReportFormat } from './formats.ts';
import type { TextStyle } from './layout.ts';
import type { Report } from './model.ts';

/**
 * The report as one string that ends in a newline; `style` only matters to the formats for a terminal. Each renderer is
 * loaded when it is asked for.
 */
export async function render(report: Report, format: ReportFormat, style: TextStyle): Promise<string> {
  switch (format) {
    case 'text':
      return (await import('./text.ts')).renderText(report, style);
    case 'json':
      return (await import('./json.ts')).renderJson(report);
    case 'markdown':
      return (await import('./markdown.ts')).renderMarkdown(report);
    case 'html':
      return (await import('./html.ts')).renderHtml(report);
    case 'junit':
      return (await import('./junit.ts')).renderJunit(report);
    case 'openmetrics':
      return (await import('./openmetrics.ts')).renderOpenMetrics(report);
  }
}
