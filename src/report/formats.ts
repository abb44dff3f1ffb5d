import { extname } from 'node:path';

export type ReportFormat = 'text' | 'json' | 'markdown' | 'summary' | 'html' | 'junit' | 'sarif';

const ENDINGS = new Map<string, ReportFormat>([
  ['.json', 'json'],
  ['.txt', 'text'],
  ['.md', 'markdown'],
  ['.html', 'html'],
  ['.xml', 'junit'],
  ['.sarif', 'sarif'],
]);

/** The format of a file name's ending; undefined if there is none. */
export function formatOfFile(path: string): ReportFormat | undefined {
  return ENDINGS.get(extname(path).toLowerCase());
}

export function formatEndings(): string[] {
  return [...ENDINGS.keys()];
}

/** The formats that the report of an upgrade has. */
export const UPGRADE_FORMATS = [
  'text',
  'json',
  'markdown',
  'html',
  'junit',
] as const satisfies readonly ReportFormat[];
export type UpgradeFormat = (typeof UPGRADE_FORMATS)[number];
