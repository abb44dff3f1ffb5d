import type * as Tree from 'libpg-query';
import { fieldsIf, nameOfStatement, reachOf } from '../postgres/sql/classify-statement.ts';
import type { Reach } from '../postgres/sql/statement-properties.ts';
import { constantOf, type Node, nameOfParts, nodesWithin, optionOf, stringOf } from '../postgres/sql/tree.ts';

/**
 * Place where a statement takes effect: in the clone, or beyond it in roles, other databases, the server itself, and what the
 * server can reach. The table of statements says it of the kind and the names in it; find-server-call.ts searches what it calls.
 */
export type StatementScope =
  | { readonly kind: 'within' }
  /** Only the target's own name leads out: it is meant for the clone. */
  | { readonly kind: 'redirect'; readonly what: string }
  | {
      readonly kind: 'beyond';
      readonly what: string;
      readonly why: string;
      /** How far it goes: other databases and the roles of the cluster, or files, programs and other servers. */
      readonly leaves: 'database' | 'server';
      /** A sandbox of the server keeps it within. */
      readonly held?: true;
      /** The server does so only for roles with rights on the catalogues that all databases share. */
      readonly byRight?: true;
    }
  /** Only databases that the command made for itself, beside the clone. */
  | { readonly kind: 'own-databases'; readonly what: string; readonly databases: readonly string[] }
  | { readonly kind: 'create-database'; readonly database: string }
  | { readonly kind: 'drop-database'; readonly database: string };

/** Databases that the command may name. */
export interface Names {
  readonly target: string;
  readonly clone: string;
  /** Tells if the command made a database for itself. */
  readonly made?: (name: string) => boolean;
}

/** Returns the scope of a statement by its kind; `names` are the names that the command may use for its own database. */
export function classifyScope(node: Node, names: Names): StatementScope {
  const reach = reachOf(node);
  if (reach === 'database') return { kind: 'within' };
  if ('databases' in reach) return onDatabases(reach, names);
  const { beyond: leaves, what = nameOfStatement(node), why, held, byRight } = reach;
  const scope = beyond(what, why, leaves === 'server' ? 'server' : 'database');
  if (byRight) return { ...scope, byRight };
  return held ? { ...scope, held } : scope;
}

function beyond(what: string, why: string, leaves: 'database' | 'server' = 'database') {
  return { kind: 'beyond', what, why, leaves } as const;
}

function onDatabases(
  { what, databases, does, template }: Extract<Reach, { databases: unknown }>,
  { target, clone, made }: Names,
): StatementScope {
  const [first = ''] = databases;
  if (does === 'drop') return { kind: 'drop-database', database: first };
  if (does === 'rename') return beyond(what, 'the command could not find its database again');
  if (does === 'create')
    return template === target
      ? beyond(`${what} … TEMPLATE`, 'newcomers to the target would wait while it is copied')
      : { kind: 'create-database', database: first };
  if (does === 'make a template' && made?.(first))
    return beyond(`${what} … IS_TEMPLATE`, 'it could not be dropped at the end of the rehearsal');
  const others = databases.filter((database) => database !== target && database !== clone);
  const foreign = others.find((database) => !made?.(database));
  if (foreign !== undefined) return beyond(`${what} ${foreign}`, 'it is another database');
  if (databases.includes(target)) return { kind: 'redirect', what: `${what} ${target}` };
  return others.length > 0 ? { kind: 'own-databases', what, databases: others } : { kind: 'within' };
}

/** Returns the database that a CREATE DATABASE copies, if it names one. */
export function templateOf(node: Node): string | undefined {
  return stringOf(optionOf(fieldsIf(node, 'CreatedbStmt')?.options, 'template')?.arg);
}

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
