import { eastAsianWidth } from 'get-east-asian-width';

/** Made when it is needed: it loads tables for 15 ms, and most texts have only signs that stand alone and take one cell. */
let segmenter: Intl.Segmenter | undefined;
/** Latin letters, dashes, quotes, arrows, and the marks of our own reports. */
const SINGLE =
  /^[ -~\u{a1}-\u{ac}\u{ae}-\u{2af}\u{2010}-\u{2027}\u{2190}-\u{2193}\u{2713}\u{2717}\u{26a0}]*$/u;
const INVISIBLE = /^[\p{Mark}\p{Default_Ignorable_Code_Point}]/u;
/** U+FE0F asks for the emoji's picture; two regional indicators are a flag. Terminals give both two cells. */
const PICTURE = /\u{fe0f}|^\p{Regional_Indicator}{2}/u;

export interface Grapheme {
  readonly text: string;
  /** Cells of the terminal that it takes: 0, 1 or 2. */
  readonly width: number;
}

/** What a reader takes for one character, each with its width; a line is only ever broken between two of them. */
export function graphemes(text: string): Grapheme[] {
  if (SINGLE.test(text)) return Array.from(text, (character) => ({ text: character, width: 1 }));
  segmenter ??= new Intl.Segmenter('en', { granularity: 'grapheme' });
  return Array.from(segmenter.segment(text), ({ segment }) => ({
    text: segment,
    width: graphemeWidth(segment),
  }));
}

function graphemeWidth(text: string): number {
  if (INVISIBLE.test(text)) return 0;
  return PICTURE.test(text) ? 2 : eastAsianWidth(text.codePointAt(0) ?? 0);
}

/** The cells that a text without control characters takes. */
export function displayWidth(text: string): number {
  return graphemes(text).reduce((sum, grapheme) => sum + grapheme.width, 0);
}

/** The text, or its beginning with `mark` at the end where it is wider than `columns`. */
export function cutToWidth(text: string, columns: number, mark: string): string {
  // Nothing beyond this can be seen, and a statement may be megabytes long.
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
