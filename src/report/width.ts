import { createRequire } from 'node:module';

const require = createRequire(import.meta.url);

/** Loaded when a text first needs it: that takes 35 ms, and most texts have only characters of one cell. */
let stringWidth: typeof import('string-width').default | undefined;

/** Created when it is first needed: that takes 15 ms, and most texts have only characters of one cell. */
let segmenter: Intl.Segmenter | undefined;
/** Latin letters, dashes, quotes, arrows, and the marks and lines of our own reports. */
const SINGLE =
  /^[ -~\u{a1}-\u{ac}\u{ae}-\u{2af}\u{2010}-\u{2027}\u{2190}-\u{2193}\u{2248}\u{2500}\u{25b2}\u{2713}\u{2717}\u{26a0}]*$/u;

export interface Grapheme {
  readonly text: string;
  /** Cells of the terminal that it takes: 0, 1 or 2. */
  readonly width: number;
}

/** Splits a text into graphemes, what a reader takes for one character, with their widths; lines are broken only between them. */
export function graphemes(text: string): Grapheme[] {
  if (SINGLE.test(text)) return Array.from(text, (character) => ({ text: character, width: 1 }));
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' });
  stringWidth ??= (require('string-width') as typeof import('string-width')).default;
  const widthOf = stringWidth;
  return Array.from(segmenter.segment(text), ({ segment }) => ({ text: segment, width: widthOf(segment) }));
}

/** The number of terminal cells of a text without control characters. */
export function displayWidth(text: string): number {
  return graphemes(text).reduce((sum, grapheme) => sum + grapheme.width, 0);
}

/** Cuts a text that is wider than `columns` and puts `mark` at its end. */
export function cutToWidth(text: string, columns: number, mark: string): string {
  // The rest cannot be visible, and a statement may be megabytes long.
  const start = text.slice(0, columns * 16);
  if (start.length === text.length && displayWidth(text) <= columns) return text;
  let room = columns - displayWidth(mark);
  let kept = '';
  for (const grapheme of graphemes(start)) {
    room -= grapheme.width;
    if (room < 0) break;
    kept += grapheme.text;
  }
  return kept.trimEnd() + mark;
}
