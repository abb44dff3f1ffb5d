import type * as Tree from 'libpg-query';
import { fieldsIf } from '../postgres/sql/classify-statement.ts';
import { constantOf, type Node, nameOfParts, nodesWithin } from '../postgres/sql/tree.ts';

const SETTING = /^(?:default_)?transaction_read_only$/i;
const ON = /^(?:on|true|yes|1)$/i;

/** Tells if a statement lets transactions of its session write that is read-only: a SET, BEGIN READ WRITE, or set_config(). */
export function permitsWriting(node: Node): boolean {
  // READ WRITE of BEGIN, SET TRANSACTION and SET SESSION CHARACTERISTICS is this option.
  const modes = nodesWithin(node, 'DefElem').filter(({ defname }) => defname === 'transaction_read_only');
  if (modes.some(({ arg }) => constantOf(arg) !== '1')) return true;
  const set = fieldsIf(node, 'VariableSetStmt');
  if (set && SETTING.test(set.name ?? '') && !ON.test(constantOf(set.args?.[0]) ?? '')) return true;
  return nodesWithin(node, 'FuncCall').some(setsReadOnly);
}

function setsReadOnly({ funcname, args = [] }: Tree.FuncCall): boolean {
  const name = constantOf(args[0]);
  return nameOfParts(funcname).name === 'set_config' && (name === undefined || SETTING.test(name));
}

/** Words of a text that cannot be read by which it could do so. */
export const WORDS_OF_SETTINGS: ReadonlySet<string> = new Set(['write', 'set', 'reset', 'set_config']);
