import { formatCount } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import { code, prose } from './escape-markdown.ts';
import { PART, type Part } from './markdown-part.ts';

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
