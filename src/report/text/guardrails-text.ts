import type { DuringSection } from '../../model/report.ts';
import { duringWords } from '../guardrail-phrases.ts';
import type { TextStyle } from '../text-layout.ts';
import { andMore, bullet, heading, messageText } from './parts-text.ts';

const LISTED = 10;
const SQL_COLUMNS = 120;

/** What the guardrails did while the command ran on the target; nothing if they did nothing. */
export function duringLines(during: DuringSection | null, style: TextStyle): string[] {
  const words = during === null ? [] : duringWords(during, (text) => messageText(style, text, SQL_COLUMNS));
  if (words.length === 0) return [];
  return [
    ...heading(style, 'Guardrails'),
    ...words.slice(0, LISTED).flatMap((sentence) => bullet(style, [sentence])),
    ...andMore(style, words.length - LISTED),
  ];
}
