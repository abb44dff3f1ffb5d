import type { Report } from '../../model/report.ts';
import { scriptWords } from '../script-phrase.ts';
import type { TextStyle } from '../text-layout.ts';
import { bullet, heading, messageText } from './parts-text.ts';

/** What came of --script. */
export function scriptText({ script }: Report, style: TextStyle): string[] {
  if (!script) return [];
  return [
    ...heading(style, 'Script', script.file === null ? 'none' : 'written'),
    ...bullet(style, [messageText(style, scriptWords(script))]),
  ];
}
