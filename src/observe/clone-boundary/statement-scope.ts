import { kindOf, type Node } from '../../postgres/sql/statement-kinds.ts';

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

type Fields = Readonly<Record<string, unknown>>;
type Rule = (fields: Fields, names: Names) => StatementScope | undefined;

const ROLES = 'roles belong to the whole cluster, so it would reach the target';
const SERVER = 'it acts on the server that the target runs on';
const FILES = "it reads or writes files of the target's server";
const CONNECTS = 'it opens a connection of its own, to wherever it is told';
const OUTSIDE = new Set([FILES, CONNECTS]);

const beyond = (what: string, why: string): StatementScope => ({
  kind: 'beyond',
  what,
  why,
  leaves: 'database',
});
const outside = (what: string, why: string): StatementScope => ({
  kind: 'beyond',
  what,
  why,
  leaves: 'server',
});
const always = (what: string, why: string, reach = beyond): Rule => {
  return () => reach(what, why);
};

/** By kind of node; what is not named here stays within the clone, unless it calls one of the functions below. */
const RULES: Readonly<Record<string, Rule>> = {
  CreateRoleStmt: always('CREATE ROLE', ROLES),
  AlterRoleStmt: always('ALTER ROLE', ROLES),
  DropRoleStmt: always('DROP ROLE', ROLES),
  GrantRoleStmt: ({ is_grant: grants }) => beyond(grants ? 'GRANT of a role' : 'REVOKE of a role', ROLES),
  AlterRoleSetStmt: ({ database }, names) =>
    typeof database === 'string'
      ? onDatabases('ALTER ROLE … IN DATABASE', [database], names)
      : beyond('ALTER ROLE … SET', ROLES),
  ReassignOwnedStmt: always(
    'REASSIGN OWNED',
    "it changes the owner of the target's objects and of databases too",
  ),
  DropOwnedStmt: always('DROP OWNED', 'it drops privileges on databases and on the cluster too'),
  AlterSystemStmt: always('ALTER SYSTEM', SERVER),
  CreateTableSpaceStmt: always('CREATE TABLESPACE', FILES, outside),
  DropTableSpaceStmt: always('DROP TABLESPACE', SERVER),
  AlterTableSpaceOptionsStmt: always('ALTER TABLESPACE', SERVER),
  CreateSubscriptionStmt: always(
    'CREATE SUBSCRIPTION',
    'it connects to a publisher and makes a slot there',
    outside,
  ),
  AlterSubscriptionStmt: always('ALTER SUBSCRIPTION', 'it acts on a publisher', outside),
  DropSubscriptionStmt: always('DROP SUBSCRIPTION', 'it drops a slot of a publisher', outside),
  AlterDatabaseStmt: ({ dbname, options }, names) =>
    names.made?.(String(dbname)) && hasOption(options, 'is_template')
      ? beyond('ALTER DATABASE … IS_TEMPLATE', 'it could not be dropped at the end of the rehearsal')
      : onDatabases('ALTER DATABASE', [String(dbname)], names),
  AlterDatabaseSetStmt: ({ dbname }, names) => onDatabases('ALTER DATABASE', [String(dbname)], names),
  AlterDatabaseRefreshCollStmt: ({ dbname }, names) => onDatabases('ALTER DATABASE', [String(dbname)], names),
  CreatedbStmt: ({ dbname, options }, { target }) =>
    templateOf(options) === target
      ? beyond('CREATE DATABASE … TEMPLATE', 'newcomers to the target would wait while it is copied')
      : { kind: 'create-database', database: String(dbname) },
  DropdbStmt: ({ dbname }) => ({ kind: 'drop-database', database: String(dbname) }),
  CopyStmt: ({ is_program: isProgram, filename }) =>
    isProgram === true
      ? outside('COPY … PROGRAM', "it runs a program on the target's server")
      : typeof filename === 'string'
        ? outside('COPY with a file of the server', FILES)
        : undefined,
  GrantStmt: (fields, names) =>
    onObject(fields.is_grant ? 'GRANT' : 'REVOKE', fields.objtype, objectNames(fields.objects), names),
  CommentStmt: (fields, names) => onObject('COMMENT', fields.objtype, objectNames([fields.object]), names),
  SecLabelStmt: (fields, names) =>
    onObject('SECURITY LABEL', fields.objtype, objectNames([fields.object]), names),
  AlterOwnerStmt: (fields, names) =>
    onObject('ALTER … OWNER', fields.objectType, objectNames([fields.object]), names),
  RenameStmt: ({ renameType, subname }, names) =>
    renameType === 'OBJECT_DATABASE'
      ? beyond('ALTER DATABASE … RENAME', 'the command could not find its database again')
      : onObject('ALTER … RENAME', renameType, [String(subname)], names),
};

/** Objects of the whole cluster. */
function onObject(
  verb: string,
  type: unknown,
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

function objectNames(objects: unknown): string[] {
  if (!Array.isArray(objects)) return [];
  return objects.flatMap((object: unknown) => {
    const text = stringOf(object);
    return text === undefined ? [] : [text];
  });
}

function stringOf(node: unknown): string | undefined {
  if (typeof node !== 'object' || node === null || !('String' in node)) return undefined;
  const { String: fields } = node;
  return typeof fields === 'object' && fields !== null && 'sval' in fields ? String(fields.sval) : undefined;
}

function templateOf(options: unknown): string | undefined {
  for (const option of Array.isArray(options) ? options : []) {
    const fields = isFields(option) && isFields(option.DefElem) ? option.DefElem : {};
    if (fields.defname === 'template') return stringOf(fields.arg);
  }
  return undefined;
}

/** Whether CREATE or ALTER DATABASE says something of this. */
export function hasOption(options: unknown, name: string): boolean {
  return (Array.isArray(options) ? options : []).some(
    (option) => isFields(option) && isFields(option.DefElem) && option.DefElem.defname === name,
  );
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

/** What a statement reaches; `names` are the names that the command may use for its own database. */
export function classifyScope(node: Node, names: Names): StatementScope {
  const kind = kindOf(node);
  const fields = node[kind];
  const rule = RULES[kind];
  const byKind = rule && isFields(fields) ? rule(fields, names) : undefined;
  if (byKind) return byKind;
  return (EVALUATES.has(kind) && calledFunction(node)) || { kind: 'within' };
}

/** Statements that evaluate what they hold; a view or a function only stores it. */
const EVALUATES = new Set([
  'SelectStmt',
  'InsertStmt',
  'UpdateStmt',
  'DeleteStmt',
  'MergeStmt',
  'CallStmt',
  'CopyStmt',
  'CreateTableAsStmt',
  'DeclareCursorStmt',
  'ExplainStmt',
  'PrepareStmt',
]);

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** The first call of a function that reaches beyond, however deep in the statement. */
function calledFunction(value: unknown): StatementScope | undefined {
  if (Array.isArray(value)) {
    for (const item of value) {
      const found = calledFunction(item);
      if (found) return found;
    }
    return undefined;
  }
  if (!isFields(value)) return undefined;
  if (isFields(value.FuncCall)) {
    const name = objectNames(value.FuncCall.funcname).at(-1) ?? '';
    const why = Object.hasOwn(FUNCTIONS, name) ? FUNCTIONS[name] : undefined;
    if (why !== undefined) return (OUTSIDE.has(why) ? outside : beyond)(`${name}()`, why);
  }
  return calledFunction(Object.values(value));
}
