import type { ReportFormat } from './formats.ts';
import type { TextStyle } from './layout.ts';
import type { Report } from './model.ts';

/** The report as one string that ends in a newline; `style` only matters to the formats for a terminal. */
export async function render(report: Report, format: ReportFormat, style: TextStyle): Promise<string> {
  return (await rendererOf(format))(report, style);
}

/** Each renderer is loaded when it is asked for. */
export async function rendererOf(
  format: ReportFormat,
): Promise<(report: Report, style: TextStyle) => string> {
  switch (format) {
    case 'text':
      return (await import('./text.ts')).renderText;
    case 'json':
      return (await import('./json.ts')).renderJson;
    case 'markdown':
      return (await import('./markdown.ts')).renderMarkdown;
    case 'html':
      return (await import('./html.ts')).renderHtml;
    case 'junit':
      return (await import('./junit.ts')).renderJunit;
    case 'openmetrics':
      return (await import('./openmetrics.ts')).renderOpenMetrics;
  }
}
