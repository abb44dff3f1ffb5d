import { oneLine, visible } from '../visible.ts';

/** Longer names and messages are cut: the JSON report has them whole. */
const INLINE_CHARACTERS = 300;

/**
 * Text from outside as a code span, where nothing of it is Markdown, HTML, a link or a mention. A table's cell ends at a
 * bar even within code, so bars are escaped as GitHub's flavour asks for.
 */
export function code(text: string, characters = INLINE_CHARACTERS): string {
  const shown = visible(cut(oneLine(text), characters));
  if (shown === '') return '` `';
  const fence = '`'.repeat(longestRun(shown) + 1);
  const padding = shown.startsWith('`') || shown.endsWith('`') ? ' ' : '';
  return `${fence}${padding}${shown.replaceAll('|', '\\|')}${padding}${fence}`;
}

/** A sentence of our own that may quote names: everything that Markdown or HTML would take for its own is escaped. */
export function prose(text: string, characters = 2 * INLINE_CHARACTERS): string {
  return (
    visible(cut(oneLine(text), characters))
      .replace(/[\\`*_{}[\]<>#|~]/g, '\\$&')
      .replace(/&/g, '&amp;')
      .replace(/(^|\s)([-+]|\d+\.)(?=\s)/g, '$1\\$2')
      // Neither a mention of a person nor a link.
      .replace(/@/g, '@\u2060')
      .replace(/:\/\//g, ':\u2060//')
  );
}

/** A block of code that nothing within can end. */
export function block(language: string, text: string): string[] {
  const shown = text
    .split('\n')
    .map((line) => visible(line.replaceAll('\t', '    ')))
    .join('\n');
  const fence = '`'.repeat(Math.max(3, longestRun(shown) + 1));
  return [`${fence}${language}`, shown, fence];
}

function longestRun(text: string): number {
  return Math.max(0, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
}

function cut(text: string, characters: number): string {
  const all = Array.from(text.slice(0, characters * 2));
  return all.length > characters || text.length > characters * 2
    ? `${all.slice(0, characters).join('')}…`
    : text;
}
