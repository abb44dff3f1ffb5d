import { formatDuration } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { duringWords } from '../guardrail-phrases.ts';
import { block, code, prose } from './escape-markdown.ts';
import { PART, type Part } from './markdown-part.ts';

/** The details of an apply, below the heading with its outcome. */
export function applyParts({ apply }: Report): Part[] {
  if (apply === null) return [];
  const { committed, rolledBack, during, differences, comparedTimes, wayBack, outcome } = apply;
  const effects = [...committed, ...rolledBack].sort((one, other) => one.statement - other.statement);
  const outcomes = {
    unknown: 'may have been committed',
    committed: 'committed',
    'rolled back': 'not committed',
    prepared: 'prepared, not committed',
  };
  const words = during === null ? [] : duringWords(during, (text) => text);
  const times = comparedTimes.toSorted((one, other) => other.appliedMs - one.appliedMs);
  const [head = '', back = '', foot = ''] = block('sql', wayBack?.trimEnd() ?? '');
  return [
    {
      ...PART,
      title: 'Effects on the target',
      folded: outcome === 'applied',
      importance: 9,
      items: effects.map((each) => `- ${each.statement}. ${outcomes[each.outcome]}: ${code(each.sql)}`),
    },
    {
      ...PART,
      title: 'Guardrails',
      folded: false,
      importance: 8,
      items: words.map((sentence) => `- ${prose(sentence)}`),
    },
    {
      ...PART,
      title: 'Differences from the rehearsal',
      folded: false,
      importance: 9,
      items: differences.map((difference) => `- ${prose(difference)}`),
    },
    {
      ...PART,
      title: 'Times, the slowest on the target first',
      importance: 5,
      head: ['| | statement | rehearsed | on the target |', '|---|---|---|---|'],
      items: times.map(
        ({ applied, sql, rehearsedMs, appliedMs }) =>
          `| ${applied} | ${code(sql, 160)} | ${formatDuration(rehearsedMs)} | ${formatDuration(appliedMs)} |`,
      ),
    },
    {
      title: 'Rollback SQL: restores the schema that the target had before',
      folded: false,
      importance: 8,
      head: [head],
      items: wayBack === null ? [] : back.split('\n'),
      foot: [foot],
    },
  ];
}
