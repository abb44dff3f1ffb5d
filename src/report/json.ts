import type { Report } from '../model/report.ts';
import { visibleJson } from './visible.ts';

/** The sections in the order of the model, which is not loaded here: that takes longer than rendering a report. */
const SECTIONS = [
  ...([
    'version',
    'run',
    'target',
    'clone',
    'command',
    'profile',
    'statements',
    'transactions',
    'schema',
    'data',
  ] as const),
  ...([
    'hazards',
    'caveats',
    'forecast',
    'queries',
    'checks',
    'rerun',
    'down',
    'atOnce',
    'load',
    'proposal',
    'script',
    'targetConnections',
    'verdict',
  ] as const),
  ...(['apply', 'swap', 'cleanup'] as const),
] satisfies (keyof Report)[];

export function renderJson(report: Report): string {
  const ordered = Object.fromEntries(SECTIONS.map((section) => [section, report[section]]));
  return `${visibleJson(JSON.stringify(ordered, null, 2))}\n`;
}
