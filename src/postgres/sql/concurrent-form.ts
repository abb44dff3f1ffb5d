import { concurrentFailure, concurrentKeyword, fieldsIf } from './classify-statement.ts';
import { isWord, slice, type Token, tokensOf } from './tokens.ts';
import type { Node } from './tree.ts';

/** A statement with its tokens. */
export interface ReadText {
  readonly sql: string;
  readonly node: Node;
  readonly tokens: readonly Token[];
}

/**
 * Writes CONCURRENTLY into a statement that can take it: DROP INDEX becomes one statement for each index. Returns undefined if there is
 * no such form, or it is one already. The advice of hazards and the scripts of safer forms have it from here.
 */
export function concurrentForm({ sql, node, tokens }: ReadText): string[] | undefined {
  if (concurrentFailure(node) !== undefined) return undefined;
  const keyword = concurrentKeyword(node);
  if (keyword === undefined) return undefined;
  const drop = fieldsIf(node, 'DropStmt');
  if (!drop) return [withWordAfter({ sql, tokens }, keyword, 'CONCURRENTLY')];
  const commas = tokens.filter((token) => isWord(token, ','));
  const first = tokens.find((token) => !['DROP', 'INDEX', 'IF', 'EXISTS'].includes(token.text.toUpperCase()));
  const starts = [first?.from ?? 0, ...commas.map(({ to }) => to)];
  const guard = drop.missing_ok ? 'IF EXISTS ' : '';
  return starts.map(
    (from, index) => `DROP INDEX CONCURRENTLY ${guard}${slice(sql, from, commas[index]?.from)}`,
  );
}

/** Writes a word behind the first of these keywords. */
export function withWordAfter(
  { sql, tokens }: Pick<ReadText, 'sql' | 'tokens'>,
  keyword: string,
  word: string,
): string {
  const at = tokens.find((token) => isWord(token, keyword))?.to ?? 0;
  return `${slice(sql, 0, at)} ${word} ${slice(sql, at)}`;
}

/** Reads the concurrent form of a statement, each on one line without its comments; nothing if it has none. */
export async function readConcurrentForm(sql: string, node: Node): Promise<string[]> {
  if (concurrentKeyword(node) === undefined) return [];
  const tokens = (await tokensOf(sql)).filter(({ text, depth }) => text !== ';' || depth > 0);
  const line = tokens
    .map(
      ({ text, from }, index) => `${index > 0 && from > (tokens[index - 1]?.to ?? from) ? ' ' : ''}${text}`,
    )
    .join('');
  return concurrentForm({ sql: line, node, tokens: await tokensOf(line) }) ?? [];
}
