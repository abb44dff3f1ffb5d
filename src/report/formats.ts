import { extname } from 'node:path';

export type ReportFormat = 'text' | 'json' | 'markdown' | 'html' | 'junit' | 'sarif' | 'openmetrics';

const ENDINGS = new Map<string, ReportFormat>([
  ['.json', 'json'],
  ['.txt', 'text'],
  ['.md', 'markdown'],
  ['.html', 'html'],
  ['.xml', 'junit'],
  ['.sarif', 'sarif'],
  ['.prom', 'openmetrics'],
]);

/** The format that a file's ending asks for, or undefined where there is none for it. */
export function formatOfFile(path: string): ReportFormat | undefined {
  return ENDINGS.get(extname(path).toLowerCase());
}

export function formatEndings(): string[] {
  return [...ENDINGS.keys()];
}
