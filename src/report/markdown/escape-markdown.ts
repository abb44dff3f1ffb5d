import { oneLine, visible } from '../visible.ts';

/** Longer names and messages are cut; the JSON report has them in full. */
const INLINE_CHARACTERS = 300;

/**
 * Puts text from outside into a code span, so that it cannot act as Markdown, HTML, a link or a mention. A table cell ends at a
 * bar even inside code, so bars are escaped as GitHub's flavour demands.
 */
export function code(text: string, characters = INLINE_CHARACTERS): string {
  const shown = visible(cut(oneLine(text), characters));
  if (shown === '') return '` `';
  const fence = '`'.repeat(longestRun(shown) + 1);
  const padding = shown.startsWith('`') || shown.endsWith('`') ? ' ' : '';
  return `${fence}${padding}${shown.replaceAll('|', '\\|')}${padding}${fence}`;
}

/** Escapes a sentence of our own that may quote names, so that nothing in it acts as Markdown or HTML. */
export function prose(text: string, characters = 2 * INLINE_CHARACTERS): string {
  return (
    visible(cut(text.replace(/\s+/gu, ' '), characters))
      .replace(/[\\`*_{}[\]<>#|~]/g, '\\$&')
      .replace(/&/g, '&amp;')
      .replace(/(^|\s)([-+])(?=\s)/g, '$1\\$2')
      .replace(/(^|\s)(\d+)\.(?=\s)/g, '$1$2\\.')
      // Prevents mentions of people, and links.
      .replace(/@/g, '@\u2060')
      .replace(/:\/\//g, ':\u2060//')
  );
}

/** A block of code whose content cannot end it. */
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

export function cut(text: string, characters: number): string {
  const all = Array.from(text.slice(0, characters * 2));
  return all.length > characters || text.length > characters * 2
    ? `${all.slice(0, characters).join('')}…`
    : text;
}
