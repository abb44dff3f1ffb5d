import type * as Tree from 'libpg-query';
import type { Name } from '../../../model/statement-actions.ts';
import type { Reach } from '../statement-properties.ts';
import { itemsOf, strings } from '../tree.ts';

/** Reasons why a statement takes effect beyond its database, in words for those whose database shares its server with a clone. */
export const ROLES = 'roles belong to the whole cluster, so it would reach the target';
export const ACTS_ON_SERVER = 'it acts on the server that the target runs on';
export const TOUCHES_FILES = "it reads or writes files of the target's server";

/** The catalogues that all databases of a server share. */
export const SHARED_CATALOGUES: ReadonlySet<string> = new Set([
  ...['pg_authid', 'pg_auth_members', 'pg_database', 'pg_db_role_setting', 'pg_parameter_acl'],
  ...['pg_replication_origin', 'pg_shdepend', 'pg_shdescription', 'pg_shseclabel', 'pg_subscription'],
  'pg_tablespace',
]);

export function isSharedCatalogue({ schema, name }: Name): boolean {
  return (schema === null || schema === 'pg_catalog') && SHARED_CATALOGUES.has(name);
}

/** TOAST tables are named after the OIDs of their tables, which are the same everywhere for catalogues. */
const TOAST_OF_SHARED = /^pg_toast_(?:1213|1260|1262|2396|2964|3592|6000|6100|6243)(?:_index)?$/;

/** Indexes have the name of their catalogue, those of its columns, and `index`. */
const INDEX_OF_SHARED = new RegExp(`^(?:${[...SHARED_CATALOGUES].join('|')})_(?!rel_)\\w+_index$`);

/** The relation is one of those catalogues, or an index or a TOAST table of one. */
function isSharedRelation({ schema, name }: Name): boolean {
  if (schema === 'pg_toast') return TOAST_OF_SHARED.test(name);
  if (schema !== null && schema !== 'pg_catalog') return false;
  return SHARED_CATALOGUES.has(name) || INDEX_OF_SHARED.test(name);
}

/** Returns the reach of a statement about objects of one type, which the whole cluster may share. */
export function reachOfObjects(
  verb: string,
  type: Tree.ObjectType | undefined,
  objects: readonly string[],
): Reach {
  switch (type) {
    case 'OBJECT_DATABASE':
      return { what: `${verb} on a database`, databases: objects };
    case 'OBJECT_ROLE':
      return { beyond: 'cluster', what: `${verb} on a role`, why: ROLES };
    case 'OBJECT_TABLESPACE':
      return { beyond: 'cluster', what: `${verb} on a tablespace`, why: ACTS_ON_SERVER };
    case 'OBJECT_PARAMETER_ACL':
      return { beyond: 'cluster', what: `${verb} on a parameter`, why: ACTS_ON_SERVER };
    case 'OBJECT_SUBSCRIPTION':
      return {
        beyond: 'cluster',
        what: `${verb} on a subscription`,
        why: 'subscriptions act on a publisher',
      };
    default:
      return 'database';
  }
}

/** Names the object of a COMMENT, an ALTER … OWNER and their like, if it is one without a schema. */
export const namesOfObject = (object: Tree.Node | undefined) => strings(object && [object]);

const REWRITTEN = 'all databases share it, and every login of theirs would wait';

/** Returns the reach of a statement that writes relations into new files. */
export function reachOfRewrite(verb: string, relations: readonly Name[]): Reach {
  const shared = relations.find(isSharedRelation);
  return shared ? { beyond: 'cluster', what: `${verb} of ${shared.name}`, why: REWRITTEN } : 'database';
}

/** The statement rewrites everything of some kind, the catalogues that all databases share among it. */
export function rewritingShared(what: string): Reach {
  return {
    beyond: 'cluster',
    what,
    why: 'it includes the catalogues that all databases share',
    byRight: true,
  };
}

/** The server would run code of any file. */
const LOADS_FILES = {
  beyond: 'server',
  held: true,
  why: "it may run code of any file within the target's server",
} as const;

/** The library is one of the server's own folder. */
function isInstalled(library: string): boolean {
  const name = library.replace(/^\$libdir\//, '');
  return !name.includes('/');
}

/** Returns the reach of a statement that has the server load a library. */
export function reachOfLibrary(what: string, library: string): Reach {
  return isInstalled(library) ? 'database' : { ...LOADS_FILES, what: `${what} '${library}'` };
}

/** Settings of a session through which it reaches beyond its database. */
const SETTINGS_BEYOND = new Map<string, Extract<Reach, { beyond: unknown }>>([
  ...['dynamic_library_path', 'extension_control_path', 'session_preload_libraries'].map(
    (name) => [name, LOADS_FILES] as const,
  ),
  [
    'allow_system_table_mods',
    { beyond: 'cluster', why: 'the catalogues that all databases share could be altered' },
  ],
]);

export const NAMES_OF_SETTINGS_BEYOND = [...SETTINGS_BEYOND.keys()];

/** Returns how far a session reaches that changes this setting. */
function reachOfSetting(name: string): Reach {
  const reach = SETTINGS_BEYOND.get(name.toLowerCase());
  return reach ? { ...reach, what: `SET ${name}` } : 'database';
}

/** Returns the reach of the first of these SET clauses that goes beyond the database. */
export function reachOfSets(sets: readonly (Tree.VariableSetStmt | undefined)[]): Reach {
  const reaches = sets.flatMap((set) =>
    set?.kind === 'VAR_SET_VALUE' && set.name !== undefined ? [reachOfSetting(set.name)] : [],
  );
  return reaches.find((reach) => reach !== 'database') ?? 'database';
}

/** Returns the SET clauses among the options of a function. */
export function setsAmong(options: readonly Tree.Node[] | undefined): Tree.VariableSetStmt[] {
  return itemsOf<Tree.DefElem>(options, 'DefElem').flatMap(({ arg }) =>
    arg && 'VariableSetStmt' in arg ? [arg.VariableSetStmt] : [],
  );
}
