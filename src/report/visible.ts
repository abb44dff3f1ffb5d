/**
 * What a name, a statement or an error message may hold, but a terminal must never get: control characters (the
 * escape sequences start with one), and the invisible characters that reorder or hide the text around them.
 * U+200D stays: it joins emoji.
 */
const DANGEROUS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;

const SHORT = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

/** The text with everything dangerous shown as an escape (`\x1b`, `\u{202e}`) instead of taking effect. */
export function visible(text: string): string {
  return text.replace(
    DANGEROUS,
    (character) => SHORT.get(character) ?? escaped(character.codePointAt(0) ?? 0),
  );
}

function escaped(codePoint: number): string {
  const hex = codePoint.toString(16);
  return codePoint < 0x100 ? `\\x${hex.padStart(2, '0')}` : `\\u{${hex}}`;
}

/** JSON text whose strings are safe to print on a terminal and still mean the same. */
export function visibleJson(json: string): string {
  return json.replace(DANGEROUS, (character) =>
    character === '\n'
      ? character
      : Array.from({ length: character.length }, (_, unit) => `\\u${hex4(character.charCodeAt(unit))}`).join(
          '',
        ),
  );
}

function hex4(code: number): string {
  return code.toString(16).padStart(4, '0');
}

/** SQL and messages on one line: line breaks and runs of blanks become one blank. */
export function oneLine(text: string): string {
  return text.replace(/\s+/gu, ' ').trim();
}
