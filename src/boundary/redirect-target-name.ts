import { loadParser } from '../postgres/sql/load-parser.ts';
import { identifier } from '../postgres/sql/quote.ts';
import type { Names } from './statement-scope.ts';

/** A change to one statement of a text; positions are bytes. */
export type Replacement =
  /** The target's name behind the word DATABASE becomes the clone's. */
  | { readonly kind: 'name'; readonly from: number; readonly to: number }
  | { readonly kind: 'whole'; readonly from: number; readonly to: number; readonly text: string }
  /** The CONNECTION LIMIT of a CREATE DATABASE, the command's own or added. */
  | { readonly kind: 'limit'; readonly from: number; readonly to: number; readonly limit: number };

interface Token {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

/** The text with its replacements, by the tokens of PostgreSQL's own scanner; everything else stays byte for byte. */
export async function redirectTargetName(
  text: string,
  replacements: readonly Replacement[],
  names: Names,
): Promise<string> {
  const bytes = Buffer.from(text);
  const { tokens } = await loadParser().scan(text);
  const edits = replacements.flatMap((replacement) => editsOf(replacement, tokens, names));
  const parts: Buffer[] = [];
  let done = 0;
  for (const { start, end, text: other } of edits.sort((a, b) => a.start - b.start)) {
    parts.push(bytes.subarray(done, start), Buffer.from(other));
    done = end;
  }
  return Buffer.concat([...parts, bytes.subarray(done)]).toString();
}

function editsOf(replacement: Replacement, tokens: readonly Token[], { target, clone }: Names): Token[] {
  switch (replacement.kind) {
    case 'whole':
      return [{ start: replacement.from, end: replacement.to, text: replacement.text }];
    case 'limit':
      return [limitOf(tokens, replacement)];
    case 'name':
      return namesBehindDatabase(tokens, replacement)
        .filter((token) => nameOf(token.text) === target)
        .map(({ start, end }) => ({ start, end, text: identifier(clone) }));
  }
}

/** `CONNECTION LIMIT [=] [-] n`: the sign is a token of its own. */
function limitOf(
  tokens: readonly Token[],
  { from, to, limit }: { from: number; to: number; limit: number },
): Token {
  const own = within(tokens, from, to);
  const at = own.findIndex(
    ({ text }, index) =>
      text.toLowerCase() === 'connection' && own[index + 1]?.text.toLowerCase() === 'limit',
  );
  if (at < 0) return { start: to, end: to, text: `\nCONNECTION LIMIT ${limit}` };
  const behind = own.slice(at + 2);
  const last = behind.find(({ text }) => !['=', '-', '+'].includes(text));
  return { start: own[at]?.start ?? to, end: last?.end ?? to, text: `CONNECTION LIMIT ${limit}` };
}

/** Comments may stand anywhere in between. */
function within(tokens: readonly Token[], from: number, to: number): Token[] {
  return tokens.filter(({ start, end, text }) => start >= from && end <= to && !/^(--|\/\*)/.test(text));
}

/** `DATABASE a, b`: the first of each such list. */
function namesBehindDatabase(tokens: readonly Token[], { from, to }: { from: number; to: number }): Token[] {
  const own = within(tokens, from, to);
  const found: Token[] = [];
  let at = own.findIndex(({ text }) => text.toLowerCase() === 'database') + 1;
  for (; at > 0 && at < own.length; at += 2) {
    const name = own[at];
    if (!name) break;
    found.push(name);
    if (own[at + 1]?.text !== ',') break;
  }
  return found;
}

/** What an identifier says: quoted ones as they are, the others in lower case. */
function nameOf(token: string): string {
  return token.startsWith('"') ? token.slice(1, -1).replaceAll('""', '"') : token.toLowerCase();
}
