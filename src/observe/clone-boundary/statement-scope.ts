import type * as Tree from 'libpg-query';
import {
  evaluatesExpressions,
  isStatementKind,
  nameOfStatement,
  reachOf,
} from '../../postgres/sql/classify-statement.ts';
import type { KindsReaching } from '../../postgres/sql/statement-kinds.ts';
import {
  calledFunctions,
  type FieldsOf,
  kindOf,
  type Node,
  optionOf,
  strings,
} from '../../postgres/sql/tree.ts';

/**
 * Which statements take effect beyond the clone: roles, other databases, the server itself, and what the server can
 * reach. Read from the parse tree, so it stops what is said openly; what hides in a function
 * or in EXECUTE is found by comparing the shared catalogues before and after.
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
const SERVER = 'it acts on the server that the target runs on';
const FILES = "it reads or writes files of the target's server";
const CONNECTS = 'it opens a connection of its own, to wherever it is told';
const OUTSIDE = new Set([FILES, CONNECTS]);

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
  AlterSystemStmt: SERVER,
  CreateTableSpaceStmt: FILES,
  DropTableSpaceStmt: SERVER,
  AlterTableSpaceOptionsStmt: SERVER,
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
    stringOf(optionOf(options, 'template')?.arg) === target
      ? beyond('CREATE DATABASE … TEMPLATE', 'newcomers to the target would wait while it is copied')
      : { kind: 'create-database', database: dbname },
  DropdbStmt: ({ dbname = '' }) => ({ kind: 'drop-database', database: dbname }),
  CopyStmt: ({ is_program: isProgram, filename }) => {
    if (isProgram) return beyond('COPY … PROGRAM', "it runs a program on the target's server", 'server');
    return filename === undefined ? undefined : beyond('COPY with a file of the server', FILES, 'server');
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
      return beyond(`${verb} on a tablespace`, SERVER);
    case 'OBJECT_PARAMETER_ACL':
      return beyond(`${verb} on a parameter`, SERVER);
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

/** Functions that act beyond the database of their session, by name in any schema. */
const FUNCTIONS: Readonly<Record<string, string>> = {
  pg_reload_conf: SERVER,
  pg_rotate_logfile: SERVER,
  pg_promote: SERVER,
  pg_switch_wal: SERVER,
  pg_create_restore_point: SERVER,
  pg_backup_start: SERVER,
  pg_backup_stop: SERVER,
  pg_start_backup: SERVER,
  pg_stop_backup: SERVER,
  pg_wal_replay_pause: SERVER,
  pg_wal_replay_resume: SERVER,
  pg_terminate_backend: "it may end the target's sessions",
  pg_cancel_backend: "it may cancel statements of the target's sessions",
  pg_create_physical_replication_slot: SERVER,
  pg_create_logical_replication_slot: SERVER,
  pg_copy_physical_replication_slot: SERVER,
  pg_copy_logical_replication_slot: SERVER,
  pg_drop_replication_slot: SERVER,
  pg_replication_slot_advance: SERVER,
  pg_sync_replication_slots: SERVER,
  pg_logical_slot_get_changes: SERVER,
  pg_logical_slot_get_binary_changes: SERVER,
  pg_replication_origin_create: SERVER,
  pg_replication_origin_drop: SERVER,
  pg_replication_origin_advance: SERVER,
  pg_stat_reset_shared: SERVER,
  pg_stat_reset_slru: SERVER,
  pg_stat_reset_replication_slot: SERVER,
  pg_stat_statements_reset: 'it resets the statistics of every database',
  pg_file_write: FILES,
  pg_file_rename: FILES,
  pg_file_unlink: FILES,
  lo_import: FILES,
  lo_export: FILES,
  dblink: CONNECTS,
  dblink_connect: CONNECTS,
  dblink_connect_u: CONNECTS,
  dblink_exec: CONNECTS,
  dblink_send_query: CONNECTS,
};

/** Returns what a statement reaches; `names` are the names that the command may use for its own database. */
export function classifyScope(node: Node, names: Names): StatementScope {
  const byKind = scopeOfKind(node, names);
  if (byKind) return byKind;
  return (evaluatesExpressions(node) && scopeOfCalls(node)) || { kind: 'within' };
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

/** The first call of a function that reaches beyond, however deep in the statement. */
function scopeOfCalls(node: Node): StatementScope | undefined {
  const name = calledFunctions(node).find((called) => Object.hasOwn(FUNCTIONS, called.name))?.name ?? '';
  const why = FUNCTIONS[name];
  return why === undefined ? undefined : beyond(`${name}()`, why, OUTSIDE.has(why) ? 'server' : 'database');
}
