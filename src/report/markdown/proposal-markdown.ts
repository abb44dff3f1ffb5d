import type { Report } from '../../model/report.ts';
import { proposalFigures, proposalWords } from '../proposal-phrases.ts';
import { prose } from './escape-markdown.ts';
import { PART, type Part } from './markdown-part.ts';

export function proposalPart({ proposal }: Report): Part | undefined {
  if (!proposal) return undefined;
  const words = proposalWords(proposal).map((each) => `- ${prose(each)}`);
  const title = `Safer form (--propose): ${proposal.outcome === 'proved' ? 'proved' : 'none'}`;
  const figures = proposalFigures(proposal);
  const part = { ...PART, title, folded: false, importance: 8 };
  if (figures.length === 0) return { ...part, items: words };
  return {
    ...part,
    head: ['| | original | safer |', '|---|---|---|'],
    items: figures.map((cells) => `| ${cells.join(' | ')} |`),
    foot: ['', ...words],
  };
}
