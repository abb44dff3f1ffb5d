import { loadParser } from './load-parser.ts';

/** One token of a statement. */
export interface Token {
  readonly text: string;
  /** Positions in the text, in bytes. */
  readonly from: number;
  readonly to: number;
  /** Number of the parentheses and brackets around it; those themselves belong to what is outside of them. */
  readonly depth: number;
}

/** Returns the tokens of a text that the parser accepted, without comments. */
export async function tokensOf(sql: string): Promise<Token[]> {
  const { tokens } = await loadParser().scan(sql);
  const bytes = Buffer.from(sql);
  let depth = 0;
  return tokens.flatMap(({ start, end }) => {
    const text = bytes.toString('utf8', start, end);
    if (text.startsWith('--') || text.startsWith('/*')) return [];
    if (text === ')' || text === ']') depth--;
    const token = { text, from: start, to: end, depth };
    if (text === '(' || text === '[') depth++;
    return [token];
  });
}

/** Returns the text between two positions, in bytes, without spacing around it. */
export function slice(sql: string, from: number, to?: number): string {
  return Buffer.from(sql).toString('utf8', from, to).trim();
}

/** Tells if a token is this keyword, outside of parentheses. */
export function isWord({ text, depth }: Token, word: string): boolean {
  return depth === 0 && text.toUpperCase() === word;
}
