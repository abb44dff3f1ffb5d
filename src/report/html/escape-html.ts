import { visible } from '../visible.ts';

/** A piece of HTML that is known to be safe. */
export class Html {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | number | Html | readonly Html[] | null | undefined | false;

/** A template tag that escapes its values, unless they are HTML of our own; absent values add nothing. */
export function html(strings: TemplateStringsArray, ...values: readonly Value[]): Html {
  return new Html(
    strings.map((string, index) => string + (index < values.length ? shown(values[index]) : '')).join(''),
  );
}

function shown(value: Value): string {
  if (value === null || value === undefined || value === false) return '';
  if (value instanceof Html) return value.text;
  if (typeof value === 'object') return value.map(({ text }) => text).join('');
  return escaped(String(value));
}

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Escapes text for content and quoted attributes. Control characters are shown as escapes; line ends and tabs stay. */
function escaped(text: string): string {
  const safe = text
    .split(/(\n|\t)/)
    .map((part) => (part === '\n' || part === '\t' ? part : visible(part)))
    .join('');
  return safe.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? character);
}

/** Statements of megabytes would make a page that no browser can open; the JSON report has them in full. */
const LONGEST_CHARACTERS = 4_000;

export function cutText(text: string, characters = LONGEST_CHARACTERS): string {
  return text.length <= characters ? text : `${text.slice(0, characters)}…`;
}
