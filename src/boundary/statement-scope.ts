import type * as Tree from 'libpg-query';
import type { Name } from '../model/statement-actions.ts';
import { fieldsIf, isStatementKind, nameOfStatement, reachOf } from '../postgres/sql/classify-statement.ts';
import type { KindsReaching } from '../postgres/sql/statement-kinds.ts';
import {
  type FieldsOf,
  itemsOf,
  kindOf,
  type Node,
  nameOf,
  optionOf,
  strings,
} from '../postgres/sql/tree.ts';
import { ACTS_ON_SERVER, SHARED_CATALOGUES, TOUCHES_FILES } from './server-functions.ts';

/**
 * Which statements take effect beyond the clone: roles, other databases, the server itself, and what the server can
 * reach. Read from the kind of statement and the names in it; find-server-call.ts searches what it calls, and code.
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
    }
  /** Only databases that the command made for itself, beside the clone. */
  | { readonly kind: 'own-databases'; readonly what: string; readonly databases: readonly string[] }
  | { readonly kind: 'create-database'; readonly database: string }
  | { readonly kind: 'drop-database'; readonly database: string };

/** The databases that the command may name. */
export interface Names {
  readonly target: string;
  readonly clone: string;
  /** Those that it made for itself. */
  readonly made?: (name: string) => boolean;
}

const ROLES = 'roles belong to the whole cluster, so it would reach the target';

const beyond = (what: string, why: string, leaves: 'database' | 'server' = 'database'): StatementScope => ({
  kind: 'beyond',
  what,
  why,
  leaves,
});

/** Why statements that always reach beyond the clone do so. */
const WHY: Readonly<Record<KindsReaching<'cluster' | 'server'>, string>> = {
  CreateRoleStmt: ROLES,
  AlterRoleStmt: ROLES,
  DropRoleStmt: ROLES,
  ReassignOwnedStmt: "it changes the owner of the target's objects and of databases too",
  DropOwnedStmt: 'it drops privileges on databases and on the cluster too',
  AlterSystemStmt: ACTS_ON_SERVER,
  CreateTableSpaceStmt: TOUCHES_FILES,
  DropTableSpaceStmt: ACTS_ON_SERVER,
  AlterTableSpaceOptionsStmt: ACTS_ON_SERVER,
  CreateSubscriptionStmt: 'it connects to a publisher and makes a slot there',
  AlterSubscriptionStmt: 'it acts on a publisher',
  DropSubscriptionStmt: 'it drops a slot of a publisher',
};

type Rules = {
  readonly [Kind in KindsReaching<'depends'>]: (
    fields: FieldsOf<Kind>,
    names: Names,
  ) => StatementScope | undefined;
};

/** Statements whose names and options decide whether they reach beyond the clone; undefined: they do not. */
const RULES: Rules = {
  GrantRoleStmt: ({ is_grant: grants }) => beyond(grants ? 'GRANT of a role' : 'REVOKE of a role', ROLES),
  AlterRoleSetStmt: ({ database }, names) =>
    database === undefined
      ? beyond('ALTER ROLE … SET', ROLES)
      : onDatabases('ALTER ROLE … IN DATABASE', [database], names),
  AlterDatabaseStmt: ({ dbname = '', options }, names) =>
    names.made?.(dbname) && optionOf(options, 'is_template')
      ? beyond('ALTER DATABASE … IS_TEMPLATE', 'it could not be dropped at the end of the rehearsal')
      : onDatabases('ALTER DATABASE', [dbname], names),
  AlterDatabaseSetStmt: ({ dbname = '' }, names) => onDatabases('ALTER DATABASE', [dbname], names),
  AlterDatabaseRefreshCollStmt: ({ dbname = '' }, names) => onDatabases('ALTER DATABASE', [dbname], names),
  CreatedbStmt: ({ dbname = '', options }, { target }) =>
    templateIn(options) === target
      ? beyond('CREATE DATABASE … TEMPLATE', 'newcomers to the target would wait while it is copied')
      : { kind: 'create-database', database: dbname },
  DropdbStmt: ({ dbname = '' }) => ({ kind: 'drop-database', database: dbname }),
  CopyStmt: ({ is_program: isProgram, filename }) => {
    if (isProgram) return beyond('COPY … PROGRAM', "it runs a program on the target's server", 'server');
    return filename === undefined
      ? undefined
      : beyond('COPY with a file of the server', TOUCHES_FILES, 'server');
  },
  LockStmt: ({ relations = [] }) => {
    const shared = itemsOf<Tree.RangeVar>(relations, 'RangeVar').map(nameOf).find(isSharedCatalogue);
    return (
      shared &&
      beyond(`LOCK of ${shared.name}`, 'all databases share it, and new sessions of theirs would wait')
    );
  },
  GrantStmt: ({ is_grant: grants, objtype, objects = [] }, names) =>
    onObject(grants ? 'GRANT' : 'REVOKE', objtype, strings(objects), names),
  CommentStmt: ({ objtype, object }, names) => onObject('COMMENT', objtype, namesOf(object), names),
  SecLabelStmt: ({ objtype, object }, names) => onObject('SECURITY LABEL', objtype, namesOf(object), names),
  AlterOwnerStmt: ({ objectType, object }, names) =>
    onObject('ALTER … OWNER', objectType, namesOf(object), names),
  RenameStmt: ({ renameType, subname = '' }, names) =>
    renameType === 'OBJECT_DATABASE'
      ? beyond('ALTER DATABASE … RENAME', 'the command could not find its database again')
      : onObject('ALTER … RENAME', renameType, [subname], names),
};

function isSharedCatalogue({ schema, name }: Name): boolean {
  return (schema === null || schema === 'pg_catalog') && SHARED_CATALOGUES.has(name);
}

/** Objects of the whole cluster. */
function onObject(
  verb: string,
  type: Tree.ObjectType | undefined,
  objects: readonly string[],
  names: Names,
): StatementScope | undefined {
  switch (type) {
    case 'OBJECT_DATABASE':
      return onDatabases(`${verb} on a database`, objects, names);
    case 'OBJECT_ROLE':
      return beyond(`${verb} on a role`, ROLES);
    case 'OBJECT_TABLESPACE':
      return beyond(`${verb} on a tablespace`, ACTS_ON_SERVER);
    case 'OBJECT_PARAMETER_ACL':
      return beyond(`${verb} on a parameter`, ACTS_ON_SERVER);
    case 'OBJECT_SUBSCRIPTION':
      return beyond(`${verb} on a subscription`, 'subscriptions act on a publisher');
    default:
      return undefined;
  }
}

function onDatabases(
  what: string,
  databases: readonly string[],
  { target, clone, made }: Names,
): StatementScope | undefined {
  const others = databases.filter((database) => database !== target && database !== clone);
  const foreign = others.find((database) => !made?.(database));
  if (foreign !== undefined) return beyond(`${what} ${foreign}`, 'it is another database');
  if (databases.includes(target)) return { kind: 'redirect', what: `${what} ${target}` };
  return others.length > 0 ? { kind: 'own-databases', what, databases: others } : undefined;
}

const namesOf = (object: Tree.Node | undefined) => strings(object && [object]);

function stringOf(node: Tree.Node | undefined): string | undefined {
  return node && 'String' in node ? node.String.sval : undefined;
}

/** Returns what a statement reaches by its kind; `names` are the names that the command may use for its own database. */
export function classifyScope(node: Node, names: Names): StatementScope {
  return scopeOfKind(node, names) ?? { kind: 'within' };
}

function scopeOfKind(node: Node, names: Names): StatementScope | undefined {
  const kind = kindOf(node);
  if (!isStatementKind(kind))
    return beyond(nameOfStatement(node), 'safemigrate does not know this kind of statement', 'server');
  const leaves = reachOf(node) === 'server' ? 'server' : 'database';
  if (kind in WHY) return beyond(nameOfStatement(node), WHY[kind as keyof typeof WHY], leaves);
  if (!(kind in RULES)) return undefined;
  // The rule of a kind is given the fields of that kind.
  const rule = RULES[kind as keyof Rules] as (fields: unknown, names: Names) => StatementScope | undefined;
  return rule(node[kind], names);
}

/** Returns the database that a CREATE DATABASE copies, if it names one. */
export function templateOf(node: Node): string | undefined {
  return templateIn(fieldsIf(node, 'CreatedbStmt')?.options);
}

function templateIn(options: Parameters<typeof optionOf>[0]): string | undefined {
  return stringOf(optionOf(options, 'template')?.arg);
}
