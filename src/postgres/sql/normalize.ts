/**
 * Takes literals, comments and spacing out of a text: what is left the statements of a loop have in common. It only decides
 * whether a statement is like one that was observed already, so it need not be the server's own lexer; if it errs, a
 * statement is observed once more, or goes through as the client sent it.
 */
export function normalizeSql(text: string): string {
  const bare = text.replace(TOKEN, (_token, skipped: string | undefined, name: string | undefined) => {
    if (name !== undefined) return name;
    return skipped !== undefined ? ' ' : '?';
  });
  return bare.replace(/^ +|[ ;]+$/g, '');
}

/** Takes the comments out of a text and writes any spacing as one space; its literals stay as they are. */
export function plainOf(text: string): string {
  const plain = text.replace(TOKEN, (token, skipped: string | undefined) =>
    skipped === undefined ? token : ' ',
  );
  return plain.replace(/ +(?=;|$)|^ +/g, '').replace(/;+$/, '');
}

/** Writes other names into a text: quoted, in place of those that `as` returns one for. It gets them as the server reads them. */
export function renamed(text: string, as: (name: string) => string | undefined): string {
  return text.replace(TOKEN, (token, _skipped: string | undefined, name: string | undefined) => {
    if (name === undefined) return token;
    const read = name.startsWith('"') ? name.slice(1, -1).replaceAll('""', '"') : name.toLowerCase();
    const other = as(read);
    return other === undefined ? token : `"${other}"`;
  });
}

// A comment with another one in it, which no pattern finds the end of, and all behind it stay as they are.
const SKIPPED = String.raw`\s+|--[^\n]*|/\*(?:(?!/\*)[\s\S])*?\*/`;
const NESTED_COMMENT = String.raw`/\*[\s\S]*`;
const QUOTED_NAME = '"(?:[^"]|"")*"';
const WORD = String.raw`[A-Za-z_\u0080-\uffff][\w$\u0080-\uffff]*`;
const ESCAPED = String.raw`'(?:[^'\\]|\\[\s\S]|'')*'`;
/** A string goes on in the next line, and its escapes too. */
const ESCAPE_STRING = String.raw`[eE]${ESCAPED}(?:[ \t\r\f\v]*(?:--[^\n]*)?\n(?:\s|--[^\n]*\n)*${ESCAPED})*`;
const STRING = `[bBxXnN]?'(?:[^']|'')*'`;
const DOLLAR_STRING = String.raw`\$((?:[A-Za-z_\u0080-\uffff][\w\u0080-\uffff]*)?)\$[\s\S]*?\$\3\$`;
const NUMBER = String.raw`0[xXoObB][\da-fA-F_]+|\d[\d_]*(?:\.[\d_]*)?(?:[eE][+-]?\d+)?`;
const LEADING = new RegExp(`^(?:${SKIPPED}|\\()*([A-Za-z]*)`);

/** Returns the first word of a text in capital letters, behind comments and parentheses; empty if there is none. */
export function firstWord(text: string): string {
  return LEADING.exec(text)?.[1]?.toUpperCase() ?? '';
}

// The prefix of a string comes before words: behind a word, as in date'…', it is a part of the word.
const TOKEN = new RegExp(
  `((?:${SKIPPED})+)|${ESCAPE_STRING}|${STRING}|(${QUOTED_NAME}|${WORD}|\\$\\d+|${NESTED_COMMENT})|${DOLLAR_STRING}|${NUMBER}`,
  'g',
);
