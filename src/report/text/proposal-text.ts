import type { Report } from '../../model/report.ts';
import { proposalFigures, proposalWords } from '../proposal-phrases.ts';
import { flow, type TextStyle, tone } from '../text-layout.ts';
import { bullet, heading, messageText } from './parts-text.ts';

/** What came of --propose, and both forms beside each other. */
export function proposalText({ proposal }: Report, style: TextStyle): string[] {
  if (!proposal) return [];
  const figures = proposalFigures(proposal);
  const line = ([name, was, is]: readonly [string, string, string]) =>
    `    ${name.padEnd(28)}${was.padStart(10)}${is.padStart(12)}`;
  return [
    ...heading(style, 'Safer form', proposal.outcome === 'proved' ? 'proved' : 'none'),
    ...proposalWords(proposal).flatMap((words) => bullet(style, [messageText(style, words)])),
    ...(figures.length > 0 ? flow(style, [tone('dim', line(['', 'original', 'safer']))], 2, ['']) : []),
    ...figures.map(line),
  ];
}
