import { identifier } from '../postgres/sql/quote.ts';
import { type Token, tokensOf } from '../postgres/sql/tokens.ts';
import type { Names } from './statement-scope.ts';

/** A change to one statement of a text; positions are bytes. */
export type Replacement =
  /** The target's name behind the word DATABASE becomes the clone's. */
  | { readonly kind: 'name'; readonly from: number; readonly to: number }
  | { readonly kind: 'whole'; readonly from: number; readonly to: number; readonly text: string }
  /** The CONNECTION LIMIT of a CREATE DATABASE, the command's own or added. */
  | { readonly kind: 'limit'; readonly from: number; readonly to: number; readonly limit: number };

/** The text with its replacements, by the tokens of PostgreSQL's own scanner; everything else stays byte for byte. */
export async function redirectTargetName(
  text: string,
  replacements: readonly Replacement[],
  names: Names,
): Promise<string> {
  const bytes = Buffer.from(text);
  const tokens = await tokensOf(text);
  const edits = replacements.flatMap((replacement) => editsOf(replacement, tokens, names));
  const parts: Buffer[] = [];
  let done = 0;
  for (const { from, to, text: other } of edits.sort((a, b) => a.from - b.from)) {
    parts.push(bytes.subarray(done, from), Buffer.from(other));
    done = to;
  }
  return Buffer.concat([...parts, bytes.subarray(done)]).toString();
}

type Edit = Pick<Token, 'from' | 'to' | 'text'>;

function editsOf(replacement: Replacement, tokens: readonly Token[], { target, clone }: Names): Edit[] {
  const { from, to } = replacement;
  const own = tokens.filter((token) => token.from >= from && token.to <= to);
  switch (replacement.kind) {
    case 'whole':
      return [replacement];
    case 'limit':
      return [limitOf(own, to, replacement.limit)];
    case 'name':
      return namesBehindDatabase(own)
        .filter((token) => nameOf(token.text) === target)
        .map((token) => ({ ...token, text: identifier(clone) }));
  }
}

/** `CONNECTION LIMIT [=] [-] n`: the sign is a token of its own. */
function limitOf(own: readonly Token[], end: number, limit: number): Edit {
  const at = own.findIndex(
    ({ text }, index) =>
      text.toLowerCase() === 'connection' && own[index + 1]?.text.toLowerCase() === 'limit',
  );
  if (at < 0) return { from: end, to: end, text: `\nCONNECTION LIMIT ${limit}` };
  const last = own.slice(at + 2).find(({ text }) => !['=', '-', '+'].includes(text));
  return { from: own[at]?.from ?? end, to: last?.to ?? end, text: `CONNECTION LIMIT ${limit}` };
}

/** `DATABASE a, b`: the first of each such list. */
function namesBehindDatabase(own: readonly Token[]): Token[] {
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

/** Returns the name that an identifier stands for: a quoted one as it is, others in lower case. */
function nameOf(token: string): string {
  return token.startsWith('"') ? token.slice(1, -1).replaceAll('""', '"') : token.toLowerCase();
}
