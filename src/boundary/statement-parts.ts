import type * as Tree from 'libpg-query';
import { actionsOf, fieldsIf, isStatementKind } from '../postgres/sql/classify-statement.ts';
import { isReadingSetting } from '../postgres/sql/kinds/session-kinds.ts';
import { constantOf, type Node, nameOf, nameOfParts } from '../postgres/sql/tree.ts';

/** The parts of a statement by which it is judged. */
export interface StatementParts {
  /** Every identifier that may lead to code: of functions, relations, types, operators, and columns, since `t.f` may be a call. */
  readonly words: ReadonlySet<string>;
  /** Relations whose rows it changes. */
  readonly writes: ReadonlySet<string>;
  /** The first setting by which code could be loaded or texts be read in another way. */
  readonly setting: string | undefined;
  /** It has the server read texts in another encoding than UTF-8. */
  readonly recodes: boolean;
}

/** Settings that say which files or functions the server runs, or that open the catalogues. */
const LOADS =
  /^(?:extension_control_path|dynamic_library_path|\w+_preload_libraries|allow_system_table_mods|pl\w*\..*)$/i;

const WRITING: ReadonlySet<string> = new Set(['insert', 'update', 'delete', 'merge']);
/** NAMEDATALEN: longer texts are bodies, for example. */
const LONGEST_NAME = 64;

/** Reads the parts of a tree, without its literals: no harmless function runs what a text names. */
export function partsOf(part: unknown): StatementParts {
  const words = new Set<string>();
  const writes = new Set<string>();
  let setting: string | undefined;
  let recodes = false;
  const sets = (made: Setting | undefined): void => {
    if (made === undefined) return;
    setting ??=
      made.name === undefined ? 'set_config() with a computed name' : settingIfUnknown(made.name, made.value);
    recodes ||= made.name !== undefined && isOtherEncoding(made.name, made.value);
  };
  const visit = (key: string, fields: object): void => {
    if (isStatementKind(key)) for (const table of writtenBy({ [key]: fields })) writes.add(table);
    if (key === 'ExecuteStmt') words.add((fields as Tree.ExecuteStmt).name ?? '');
    else if (key === 'FetchStmt') words.add((fields as Tree.FetchStmt).portalname ?? '');
    else if (key === 'VariableSetStmt' || key === 'setstmt') sets(settingOf(fields as Tree.VariableSetStmt));
    else if (key === 'FuncCall' || key === 'funccall') sets(settingOfCall(fields as Tree.FuncCall));
  };
  const walk = (node: object): void => {
    for (const key in node) {
      const value = (node as Readonly<Record<string, unknown>>)[key];
      if (typeof value === 'string') {
        if ((key === 'sval' || key === 'relname') && value.length < LONGEST_NAME) words.add(value);
      } else if (typeof value === 'object' && value !== null && key !== 'A_Const') {
        if (!Array.isArray(value)) visit(key, value);
        walk(value);
      }
    }
  };
  if (typeof part === 'object' && part !== null) walk(part);
  return { words, writes, setting, recodes };
}

function writtenBy(node: Node): string[] {
  const copy = fieldsIf(node, 'CopyStmt');
  if (copy) return copy.is_from ? [nameOf(copy.relation).name] : [];
  return actionsOf(node).flatMap((action) => {
    if (action.does === 'truncate') return action.tables.map(({ name }) => name);
    return WRITING.has(action.does) && 'table' in action && action.table ? [action.table.name] : [];
  });
}

interface Setting {
  /** undefined if it is computed. */
  readonly name: string | undefined;
  readonly value: string | undefined;
}

function settingOf({ name = '', kind, args }: Tree.VariableSetStmt): Setting | undefined {
  return kind === 'VAR_SET_VALUE' || kind === 'VAR_SET_CURRENT'
    ? { name, value: constantOf(args?.[0]) }
    : undefined;
}

function settingOfCall({ funcname, args = [] }: Tree.FuncCall): Setting | undefined {
  return nameOfParts(funcname).name === 'set_config'
    ? { name: constantOf(args[0]), value: constantOf(args[1]) }
    : undefined;
}

const ENCODING = 'client_encoding';
const USUAL = /^(?:utf-?8|unicode|on|true)$/i;
/** Encodings in which the bytes of ASCII mean nothing else, as in all that a server may have: others hide quotes within letters. */
const KEEPS_ASCII =
  /^(?:sql_?ascii|latin-?\d+|iso[-_]?8859[-_]\d+|win(?:dows)?-?(?:125\d|866|874)|koi8[-_]?[ru]?|euc[-_]?(?:jp|cn|kr|tw|jis[-_]?2004))$/i;

/** Tells if a setting has the server read texts in another encoding than UTF-8. */
export function isOtherEncoding(name: string, value = ''): boolean {
  return name.toLowerCase() === ENCODING && !USUAL.test(value);
}

/** Returns the setting in words, if it is not known to be harmless with this value. */
export function settingIfUnknown(name: string, value = ''): string | undefined {
  const isUsual = USUAL.test(value) || (name.toLowerCase() === ENCODING && KEEPS_ASCII.test(value));
  return LOADS.test(name) || (isReadingSetting(name) && !isUsual) ? `the setting ${name}` : undefined;
}
