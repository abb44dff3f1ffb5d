import type * as Tree from 'libpg-query';
import type { Name } from '../../model/statement-actions.ts';
import type { NewerNode } from './newer-grammar.ts';

/** A node as the parser writes it: an object with one key, the kind of the node, over its fields. */
export type Node = Readonly<Record<string, unknown>>;

type KeysOf<Union> = Union extends unknown ? keyof Union : never;
type AnyNode = Tree.Node | NewerNode;
export type NodeKind = KeysOf<AnyNode>;
export type FieldsOf<Kind extends NodeKind> = Extract<AnyNode, Record<Kind, unknown>>[Kind];

export function kindOf(node: Node): string {
  return Object.keys(node)[0] ?? '';
}

/**
 * Visits every object within a part of a tree with the key that it stands under: for a node its kind (`RangeVar`), for a
 * field of a fixed type the field's name (`intoClause`). Kinds begin with a capital letter, fields do not.
 */
export function walkTree(part: unknown, visit: (key: string, fields: object) => void): void {
  if (typeof part !== 'object' || part === null) return;
  for (const [key, value] of Object.entries(part)) {
    if (typeof value !== 'object' || value === null) continue;
    if (!Array.isArray(part) && !Array.isArray(value)) visit(key, value);
    walkTree(value, visit);
  }
}

/** Returns the fields of all nodes of one kind within a part of a tree, however deep. */
export function nodesWithin<Kind extends NodeKind>(part: unknown, kind: Kind): FieldsOf<Kind>[] {
  const found: FieldsOf<Kind>[] = [];
  walkTree(part, (key, fields) => {
    if (key === kind) found.push(fields as FieldsOf<Kind>);
  });
  return found;
}

/** Returns the names of the functions that are called within a part of a tree. */
export function calledFunctions(part: unknown): Name[] {
  return nodesWithin(part, 'FuncCall').map(({ funcname }) => nameOfParts(funcname));
}

/** The fields of those nodes of a list that are of one kind. */
export function itemsOf<Fields>(nodes: readonly Tree.Node[] | undefined, kind: string): Fields[] {
  return (nodes ?? []).flatMap((node) => {
    const fields = (node as Readonly<Record<string, unknown>>)[kind];
    return fields === undefined ? [] : [fields as Fields];
  });
}

export function strings(nodes: readonly Tree.Node[] | undefined): string[] {
  return itemsOf<Tree.String>(nodes, 'String').map(({ sval }) => sval ?? '');
}

/** Returns the text of a string; undefined for another node. */
export function stringOf(node: Tree.Node | undefined): string | undefined {
  return node && 'String' in node ? node.String.sval : undefined;
}

export function nameOf(range: Tree.RangeVar | undefined): Name {
  return { schema: range?.schemaname ?? null, name: range?.relname ?? '' };
}

/** `a`, `a.b`: the last part is the name, the one before it the schema. */
export function nameOfParts(nodes: readonly Tree.Node[] | undefined): Name {
  const parts = strings(nodes);
  return { schema: parts.at(-2) ?? null, name: parts.at(-1) ?? '' };
}

/** Returns a constant's value as text; undefined if the node is no constant. The parser leaves out what is 0, false or empty. */
export function constantOf(value: Tree.Node | undefined): string | undefined {
  if (!value || !('A_Const' in value)) return undefined;
  const { ival, sval, boolval, fval } = value.A_Const;
  if (sval) return sval.sval ?? '';
  if (ival) return String(ival.ival ?? 0);
  if (fval) return fval.fval ?? '0';
  return boolval ? String(boolval.boolval ?? false) : undefined;
}

/** The option of a statement, `WITH (name = value)` or `(name value)`; undefined if the statement does not give it. */
export function optionOf(options: readonly Tree.Node[] | undefined, name: string): Tree.DefElem | undefined {
  return itemsOf<Tree.DefElem>(options, 'DefElem').findLast(({ defname }) => defname === name);
}

/** Tells if an option is given and not switched off: `(concurrently)`, `(full true)`, `(full on)`, `(full 1)`. */
export function hasOption(options: readonly Tree.Node[] | undefined, name: string): boolean {
  const option = optionOf(options, name);
  return option !== undefined && !isOff(option.arg);
}

/** Tells if an option is given and switched off: `(connect = false)`. */
export function isSwitchedOff(options: readonly Tree.Node[] | undefined, name: string): boolean {
  return isOff(optionOf(options, name)?.arg);
}

function isOff(value: Tree.Node | undefined): boolean {
  if (!value) return false;
  if ('Boolean' in value) return value.Boolean.boolval !== true;
  if ('Integer' in value) return (value.Integer.ival ?? 0) === 0;
  // A word that is no keyword is read as the name of a type.
  const word = 'TypeName' in value ? nameOfParts(value.TypeName.names).name : undefined;
  return /^(?:false|off)$/i.test(word ?? ('String' in value ? (value.String.sval ?? '') : ''));
}

/** Functions with which tools read the catalogs and exclude each other. */
const SYSTEM_FUNCTION =
  /^(?:pg_|has_|current_|session_|inet_|txid_|to_|array_|string_|json|row_|quote_|regexp_|(?:col|obj|shobj)_description$|(?:set_config|version|now|format|format_type|concat|concat_ws|count|max|min|sum|length|lower|upper|replace|unnest|generate_series|generate_subscripts|clock_timestamp|statement_timestamp|timezone)$)/;

/** Tells if the name is most likely that of one of PostgreSQL's own functions. */
export function isSystemFunction({ schema, name }: Name): boolean {
  return schema === null ? SYSTEM_FUNCTION.test(name) : schema === 'pg_catalog';
}
