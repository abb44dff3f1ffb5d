import { plural } from '../../format.ts';
import type { Report } from '../../model/report.ts';
import type { Section } from '../view/section.ts';

/** The file of --script, or why there is none. */
export function scriptView({ script }: Report): Section[] {
  if (!script) return [];
  const { file, reason, statements, transactions } = script;
  const text =
    file === null
      ? `no script is written: ${reason}`
      : `${file} has ${plural(statements, 'statement')} in ${plural(transactions, 'transaction')}, with their values: psql -f runs it`;
  return [
    {
      id: 'script',
      title: 'Script',
      summary: file === null ? 'none' : 'written',
      folds: 'in-comment',
      importance: 3,
      blocks: [{ kind: 'items', items: [{ text }] }],
    },
  ];
}
