import { formatDuration } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { loadDetails } from '../load-phrases.ts';
import { code, prose } from './escape-markdown.ts';
import { PART, type Part } from './markdown-part.ts';

export function loadPart({ load }: Report): Part | undefined {
  if (!load) return undefined;
  const words = loadDetails(load).map((each) => `- ${prose(each)}`);
  const part = { ...PART, title: `Under load: ${prose(load.origin)}`, importance: 8 };
  if (load.blocked.length === 0) return { ...part, items: words };
  return {
    ...part,
    head: ['| waited for | behind statement | sessions | longest | in all |', '|---|---|---|---|---|'],
    items: load.blocked.map(
      ({ relation, statement, sessions, longestMs, blockedMs }) =>
        `| ${relation === null ? 'other locks' : code(relation)} | ${statement ?? ''} | ${sessions} | ${formatDuration(longestMs)} | ${formatDuration(blockedMs)} |`,
    ),
    foot: ['', ...words],
  };
}
