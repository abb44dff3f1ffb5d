/**
 * Characters that names, statements and error messages may contain but a terminal must never get: control characters (escape
 * sequences start with one), and invisible characters that reorder or hide the text around them. U+200D is allowed: it joins emoji.
 */
const DANGEROUS =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: finding them is the purpose
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\u{e0000}-\u{e007f}]|\p{Surrogate}/gu;

const SHORT = new Map([
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
]);

/** Replaces dangerous characters with escapes (`\x1b`, `\u{202e}`). */
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

/** Escapes JSON text so that it is safe to print on a terminal and still has the same meaning. */
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

/** Puts SQL or a message on one line: line breaks and runs of blanks become one blank. */
export function oneLine(text: string): string {
  return text.replace(/\s+/gu, ' ').trim();
}
