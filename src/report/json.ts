import { type Report, report as reportModel } from './model.ts';
import { visibleJson } from './visible.ts';

export function renderJson(report: Report): string {
  // The model gives the keys its own order. A report that it refuses is a mistake of ours, but at the end of a run it
  // is still worth more printed than thrown away.
  const parsed = reportModel.safeParse(report);
  return `${visibleJson(JSON.stringify(parsed.success ? parsed.data : report, null, 2))}\n`;
}
