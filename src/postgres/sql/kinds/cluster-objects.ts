import type * as Tree from 'libpg-query';
import type { Name } from '../../../model/statement-actions.ts';
import type { Reach } from '../statement-properties.ts';
import { strings } from '../tree.ts';

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
