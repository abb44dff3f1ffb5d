import type * as Tree from 'libpg-query';
import { isWord, slice, type Token } from './tokens.ts';
import { itemsOf } from './tree.ts';

/** One command of an ALTER TABLE. */
export interface AlterCommand {
  readonly fields: Tree.AlterTableCmd;
  /** Its place in the statement, in bytes. */
  readonly from: number;
  readonly to: number;
  readonly text: string;
}

/** Takes an ALTER TABLE apart. Returns undefined if its text is of another form than its tree. */
export function alterCommands(
  { sql, tokens }: { readonly sql: string; readonly tokens: readonly Token[] },
  { relation, cmds = [] }: Tree.AlterTableStmt,
): AlterCommand[] | undefined {
  const start = tokens.findIndex(({ from }) => from === (relation?.location ?? 0));
  const isName = (token: Token | undefined) => token?.text === '.' || token?.text === '*';
  let first = start + 1;
  while (isName(tokens[first])) first += tokens[first]?.text === '.' ? 2 : 1;
  const rest = tokens.slice(first);
  const commas = rest.filter((token) => isWord(token, ','));
  const bounds = [rest[0]?.from ?? 0, ...commas.map(({ to }) => to)];
  if (start < 0 || bounds.length !== cmds.length) return undefined;
  const fields = itemsOf<Tree.AlterTableCmd>(cmds, 'AlterTableCmd');
  return bounds.map((at, index): AlterCommand => {
    const until = commas[index]?.from ?? Number.POSITIVE_INFINITY;
    const own = rest.filter(({ from, to }) => from >= at && to <= until);
    const [from, to] = [own[0]?.from ?? at, own.at(-1)?.to ?? at];
    return { fields: fields[index] ?? {}, from, to, text: slice(sql, from, to) };
  });
}
