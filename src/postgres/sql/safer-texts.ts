import type * as Tree from 'libpg-query';
import type { SaferTexts } from '../../model/statement-actions.ts';
import { concurrentFailure, concurrentKeyword, fieldsIf } from './classify-statement.ts';
import { isWord, slice, type Token, tokensOf } from './tokens.ts';
import { itemsOf, type Node } from './tree.ts';

/** A statement with its tokens. */
export interface ReadText {
  readonly sql: string;
  readonly node: Node;
  readonly tokens: readonly Token[];
}

/**
 * Writes CONCURRENTLY into a statement that can take it: DROP INDEX becomes one statement for each index. Returns undefined if there is
 * no such form, or it is one already. The advice of hazards and the scripts of safer forms have it from here, and the other forms as well.
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

/** Writes NOT VALID behind a statement that does nothing but add a CHECK or a named foreign key to a table, or a CHECK to a domain. */
export function notValidForm({ sql, node }: Pick<ReadText, 'sql' | 'node'>): string | undefined {
  const constraint = constraintAlone(node);
  const isChecked = constraint?.contype === 'CONSTR_CHECK' || constraint?.contype === 'CONSTR_FOREIGN';
  return isChecked && !constraint.skip_validation ? `${sql} NOT VALID` : undefined;
}

/** Returns the constraint that a statement adds, if that is all that it does. One of a table has to have a name, to be validated by. */
function constraintAlone(node: Node): Tree.Constraint | undefined {
  const domain = fieldsIf(node, 'AlterDomainStmt');
  if (domain) return domain.def && 'Constraint' in domain.def ? domain.def.Constraint : undefined;
  const [command, ...others] = itemsOf<Tree.AlterTableCmd>(
    fieldsIf(node, 'AlterTableStmt')?.cmds,
    'AlterTableCmd',
  );
  if (command?.subtype !== 'AT_AddConstraint' || others.length > 0) return undefined;
  const constraint = command.def && 'Constraint' in command.def ? command.def.Constraint : undefined;
  return constraint?.conname === undefined ? undefined : constraint;
}

/** Writes a word behind the first of these keywords. */
function withWordAfter(
  { sql, tokens }: Pick<ReadText, 'sql' | 'tokens'>,
  keyword: string,
  word: string,
): string {
  const at = tokens.find((token) => isWord(token, keyword))?.to ?? 0;
  return `${slice(sql, 0, at)} ${word} ${slice(sql, at)}`;
}

/** Reads the forms of a statement that block others less, without its comments. */
export async function readSaferTexts(sql: string, node: Node): Promise<SaferTexts> {
  if (concurrentKeyword(node) === undefined && notValidForm({ sql, node }) === undefined) return {};
  const given = (await tokensOf(sql)).filter(({ text, depth }) => text !== ';' || depth > 0);
  const line = given
    .map(({ text, from }, index) => `${index > 0 && from > (given[index - 1]?.to ?? from) ? ' ' : ''}${text}`)
    .join('');
  const read = { sql: line, node, tokens: await tokensOf(line) };
  const [concurrent, notValid] = [concurrentForm(read), notValidForm(read)];
  const isOfParent = fieldsIf(node, 'IndexStmt')?.relation?.inh === true;
  return {
    ...(concurrent && { concurrent }),
    ...(notValid !== undefined && { 'not valid': [notValid] }),
    ...(isOfParent && { 'on only': [withWordAfter(read, 'ON', 'ONLY')] }),
  };
}
