import { formatCount } from '../../format.ts';
import type { Hazard, Report } from '../../model/report.ts';
import { hazardsInOrder } from '../hazard-blocks.ts';
import { saferFormHint } from '../proposal-phrases.ts';
import { code, prose } from './escape-markdown.ts';
import { PART, type Part } from './markdown-part.ts';

const SIGNS = { error: '🛑', warning: '⚠️', notice: 'ℹ️' } as const;

export function hazardPart(report: Report): Part {
  const { hazards } = report;
  const hint = saferFormHint(report);
  const items = hazardsInOrder(report).flatMap(({ title, hazards: together }) =>
    title === null
      ? together.map(hazardItem)
      : [`- *${prose(title)}*`, ...together.map((hazard) => hazardItem(hazard).replaceAll(/^/gm, '  '))],
  );
  const foot = hint === null ? [] : ['', prose(hint)];
  return {
    ...PART,
    title: `Hazards: ${formatCount(hazards.length)}`,
    folded: false,
    importance: 10,
    items,
    foot,
  };
}

function hazardItem(hazard: Hazard): string {
  const { code: name, severity, relation, statement, message, evidence, advice, allowed } = hazard;
  return (
    `- ${SIGNS[severity]} **${name}**${relation === null ? '' : ` on ${code(relation)}`}` +
    `${statement === null ? '' : `, statement ${statement}`}${allowed ? ' (allowed by the policy)' : ''}: ` +
    `${prose(message)}${evidence === '' ? '' : `\n  - Evidence: ${prose(evidence)}`}` +
    `${advice === '' ? '' : `\n  - Do: ${prose(advice, 1000)}`}`
  );
}

export function failurePart({ statements }: Pick<Report, 'statements'>): Part {
  const failed = statements.filter(({ error }) => error !== null);
  return {
    ...PART,
    title: `Failed statements: ${formatCount(failed.length)}`,
    folded: false,
    importance: 9,
    items: failed.map(
      ({ index, sql, error }) =>
        `- ${index}. ${code(sql)}\n  - ${prose(error?.message ?? '')} (SQLSTATE ${error?.sqlstate ?? ''})`,
    ),
  };
}
