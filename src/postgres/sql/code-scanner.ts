/** Takes the tokens of code, which come in order. */
export interface CodeReader {
  /**
   * Takes a word in lower case, a quoted name unchanged, a character of punctuation, `'` for a literal, `u&"` for a name in escapes,
   * or `0` for a number.
   */
  token(text: string): void;
  /** Tells whether the literal that begins is code, as the body of a DO is: its tokens follow, and then leave(). */
  enters(): boolean;
  leave(): void;
}

const QUOTE = 0x27;
const DOUBLE_QUOTE = 0x22;
const DOLLAR = 0x24;
const BACKSLASH = 0x5c;
const NEWLINE = 0x0a;
const AMPERSAND = 0x26;
const SLASH = 0x2f;
const STAR = 0x2a;
const DASH = 0x2d;

/** Bytes of words: letters, digits, `_`, `$`, and those of characters beyond ASCII. */
const IN_WORD = new Uint8Array(256).map((_, byte) =>
  byte >= 0x80 || /[\w$]/.test(String.fromCharCode(byte)) ? 1 : 0,
);
const SPACE = new Uint8Array(256).map((_, byte) => (/\s/.test(String.fromCharCode(byte)) ? 1 : 0));
/** Longer words are no keywords, and names of 63 bytes at most. */
const LONGEST_WORD = 256;

type Part =
  | { readonly kind: 'code' }
  | { readonly kind: 'line comment' }
  | { readonly kind: 'comment'; depth: number }
  | { readonly kind: 'name'; readonly bytes: Buffer[] }
  | { readonly kind: 'literal'; readonly escapes: boolean; readonly inner: CodeScanner | null }
  | { readonly kind: 'dollars'; readonly tag: Buffer; readonly inner: CodeScanner | null };

const CODE: Part = { kind: 'code' };

/**
 * Cuts code into tokens, for texts that are too large for PostgreSQL's own scanner or come in parts. Comments are left out, of any
 * length and depth. It takes standard_conforming_strings for on.
 */
export class CodeScanner {
  readonly #reader: CodeReader;
  #part: Part = CODE;
  /** The beginning of a token that may continue in the next part. */
  #rest: Buffer = Buffer.alloc(0);

  constructor(reader: CodeReader) {
    this.#reader = reader;
  }

  /** Takes the next part of the text; it may be cut anywhere. */
  push(bytes: Buffer): void {
    const text = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    this.#rest = text.subarray(this.#scan(text, false));
  }

  /** Takes the end of the text. */
  end(): void {
    this.#scan(this.#rest, true);
    if (this.#part.kind === 'literal' || this.#part.kind === 'dollars') this.#leave(this.#part.inner);
    this.#rest = Buffer.alloc(0);
  }

  /** Returns the position of the token that is not known before more comes. */
  #scan(text: Buffer, isEnd: boolean): number {
    let at = 0;
    while (at < text.length) {
      const next = this.#take(text, at, isEnd);
      if (next === at) return at;
      at = next;
    }
    return at;
  }

  /** Takes a token, or a part of one. @returns the position behind it; the same one if more is needed. */
  #take(text: Buffer, at: number, isEnd: boolean): number {
    switch (this.#part.kind) {
      case 'code':
        return this.#code(text, at, isEnd);
      case 'line comment': {
        const end = text.indexOf(NEWLINE, at);
        if (end >= 0) this.#part = CODE;
        return end >= 0 ? end : text.length;
      }
      case 'comment':
        return this.#comment(text, at, isEnd, this.#part);
      case 'name':
        return this.#name(text, at, isEnd, this.#part);
      case 'literal':
        return this.#literal(text, at, isEnd, this.#part);
      case 'dollars':
        return this.#dollars(text, at, isEnd, this.#part);
    }
  }

  #code(text: Buffer, from: number, isEnd: boolean): number {
    let at = from;
    while (at < text.length && SPACE[text[at] ?? 0]) at++;
    if (at === text.length) return at;
    const first = text[at] ?? 0;
    if (at > from && (first === DASH || first === SLASH || first === DOLLAR || IN_WORD[first])) return at;
    if (first === QUOTE) return this.#beginLiteral(at + 1, false);
    if (first === DOUBLE_QUOTE) {
      this.#part = { kind: 'name', bytes: [] };
      return at + 1;
    }
    if (first === DASH || first === SLASH) return this.#dashOrSlash(text, at, isEnd);
    if (first === DOLLAR) return this.#dollar(text, at, isEnd);
    if (IN_WORD[first]) return this.#word(text, at, isEnd);
    this.#reader.token(String.fromCharCode(first));
    return at + 1;
  }

  #dashOrSlash(text: Buffer, at: number, isEnd: boolean): number {
    const [first, second] = [text[at], text[at + 1]];
    if (second === undefined && !isEnd) return at;
    if (first === DASH && second === DASH) {
      this.#part = { kind: 'line comment' };
      return at + 2;
    }
    if (first === SLASH && second === STAR) {
      this.#part = { kind: 'comment', depth: 1 };
      return at + 2;
    }
    this.#reader.token(String.fromCharCode(first ?? 0));
    return at + 1;
  }

  #word(text: Buffer, at: number, isEnd: boolean): number {
    let end = at + 1;
    while (end < text.length && IN_WORD[text[end] ?? 0]) end++;
    if (end === text.length && !isEnd && end - at <= LONGEST_WORD) return at;
    const first = text[at] ?? 0;
    const isNumber = first >= 0x30 && first <= 0x39;
    if (isNumber || end - at > LONGEST_WORD) {
      this.#reader.token('0');
      return end;
    }
    const word = text.toString('utf8', at, end).toLowerCase();
    if (word === 'e' && text[end] === QUOTE) return this.#beginLiteral(end + 1, true);
    if (word === 'u' && end + 1 >= text.length && text[end] !== QUOTE && !isEnd) return at;
    const isEscaped = word === 'u' && text[end] === AMPERSAND && text[end + 1] === DOUBLE_QUOTE;
    this.#reader.token(isEscaped ? 'u&"' : word);
    return end;
  }

  #dollar(text: Buffer, at: number, isEnd: boolean): number {
    let end = at + 1;
    while (end < text.length && text[end] !== DOLLAR && IN_WORD[text[end] ?? 0]) end++;
    if (end === text.length && !isEnd && end - at <= LONGEST_WORD) return at;
    const second = text[at + 1] ?? 0;
    // A parameter, `$1`.
    if (text[end] !== DOLLAR || (second >= 0x30 && second <= 0x39)) {
      this.#reader.token('0');
      return end;
    }
    const tag = Buffer.from(text.subarray(at, end + 1));
    const inner = this.#innerOf();
    this.#part = { kind: 'dollars', tag, inner };
    return end + 1;
  }

  #beginLiteral(behind: number, escapes: boolean): number {
    this.#part = { kind: 'literal', escapes, inner: this.#innerOf() };
    return behind;
  }

  #innerOf(): CodeScanner | null {
    this.#reader.token("'");
    return this.#reader.enters() ? new CodeScanner(this.#reader) : null;
  }

  #leave(inner: CodeScanner | null): void {
    this.#part = CODE;
    if (!inner) return;
    inner.end();
    this.#reader.leave();
  }

  #comment(text: Buffer, from: number, isEnd: boolean, part: Extract<Part, { kind: 'comment' }>): number {
    let at = from;
    for (; at + 1 < text.length; at++) {
      if (text[at] === STAR && text[at + 1] === SLASH) {
        part.depth--;
        at++;
        if (part.depth > 0) continue;
        this.#part = CODE;
        return at + 1;
      }
      if (text[at] === SLASH && text[at + 1] === STAR) {
        part.depth++;
        at++;
      }
    }
    return isEnd ? text.length : at;
  }

  #name(text: Buffer, from: number, isEnd: boolean, part: Extract<Part, { kind: 'name' }>): number {
    const end = text.indexOf(DOUBLE_QUOTE, from);
    if (end < 0 || (end + 1 === text.length && !isEnd)) return isEnd ? text.length : from;
    const isDoubled = text[end + 1] === DOUBLE_QUOTE;
    part.bytes.push(Buffer.from(text.subarray(from, isDoubled ? end + 1 : end)));
    if (isDoubled) return end + 2;
    this.#part = CODE;
    this.#reader.token(Buffer.concat(part.bytes).toString());
    return end + 1;
  }

  #literal(
    text: Buffer,
    from: number,
    isEnd: boolean,
    { escapes, inner }: Extract<Part, { kind: 'literal' }>,
  ): number {
    let end = text.indexOf(QUOTE, from);
    if (escapes) {
      const back = text.indexOf(BACKSLASH, from);
      if (back >= 0 && (end < 0 || back < end)) {
        if (back + 1 >= text.length && !isEnd) return this.#pass(text, from, back, inner);
        return this.#pass(text, from, Math.min(back + 2, text.length), inner);
      }
    }
    if (end < 0) return this.#pass(text, from, text.length, inner);
    if (end + 1 === text.length && !isEnd) return this.#pass(text, from, end, inner);
    if (text[end + 1] === QUOTE) {
      end += 2;
      return this.#pass(text, from, end, inner);
    }
    this.#pass(text, from, end, inner);
    this.#leave(inner);
    return end + 1;
  }

  #dollars(
    text: Buffer,
    from: number,
    isEnd: boolean,
    { tag, inner }: Extract<Part, { kind: 'dollars' }>,
  ): number {
    const end = text.indexOf(tag, from);
    if (end < 0) {
      const passed = isEnd ? text.length : Math.max(from, text.length - tag.length + 1);
      return this.#pass(text, from, passed, inner);
    }
    this.#pass(text, from, end, inner);
    this.#leave(inner);
    return end + tag.length;
  }

  #pass(text: Buffer, from: number, to: number, inner: CodeScanner | null): number {
    inner?.push(text.subarray(from, to));
    return to;
  }
}
