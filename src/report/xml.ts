import { visible } from './visible.ts';

/** Escapes text for the content or an attribute of an XML element; characters that XML forbids are shown as escapes. */
export function xmlText(text: string): string {
  return text
    .split('\n')
    .map((line) => visible(line.replaceAll('\t', '    ')))
    .join('\n')
    .replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&apos;',
};
