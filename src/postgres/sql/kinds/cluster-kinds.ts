import type * as Tree from 'libpg-query';
import type { NamedLock } from '../../../model/statement-actions.ts';
import { lockOn } from '../query-locks.ts';
import type { Reach, StatementKind, StatementTable } from '../statement-properties.ts';
import { isSwitchedOff, itemsOf, optionOf, stringOf } from '../tree.ts';
import { ACTS_ON_SERVER, ROLES, reachOfSets, TOUCHES_FILES } from './cluster-objects.ts';
import { defining } from './object-kinds.ts';

const ofCluster = (name: string, why: string) =>
  ({ name, effect: 'cluster', reach: { beyond: 'cluster', why } }) as const;

const ofDatabase = (name: string) =>
  ({
    name,
    effect: 'cluster',
    reach: ({ dbname = '' }: { readonly dbname?: string }): Reach => ({
      what: 'ALTER DATABASE',
      databases: [dbname],
    }),
  }) as const;

const beyondOr = (reach: Reach, otherwise: Reach) => (reach === 'database' ? otherwise : reach);

/** Statements about what a whole cluster shares: roles, databases, tablespaces, settings; and about other servers. */
export const CLUSTER_KINDS = {
  // Other servers.
  CreateFdwStmt: { ...defining('CREATE FOREIGN DATA WRAPPER'), runs: 'unknown' },
  AlterFdwStmt: { ...defining('ALTER FOREIGN DATA WRAPPER'), runs: 'unknown' },
  CreateForeignServerStmt: {
    ...defining('CREATE SERVER'),
    runs: 'unknown',
    outside: ({ servername = '' }) => `CREATE SERVER ${servername}`,
  },
  AlterForeignServerStmt: { ...defining('ALTER SERVER'), runs: 'unknown' },
  CreateUserMappingStmt: { ...defining('CREATE USER MAPPING'), runs: 'unknown' },
  AlterUserMappingStmt: { ...defining('ALTER USER MAPPING'), runs: 'unknown' },
  DropUserMappingStmt: defining('DROP USER MAPPING'),
  ImportForeignSchemaStmt: { ...defining('IMPORT FOREIGN SCHEMA'), runs: 'unknown' },
  CreatePublicationStmt: {
    ...defining('CREATE PUBLICATION'),
    locks: ({ pubobjects }) => locksOfPublication(pubobjects),
  },
  AlterPublicationStmt: {
    ...defining('ALTER PUBLICATION'),
    locks: ({ pubobjects }) => locksOfPublication(pubobjects),
  },
  CreateSubscriptionStmt: {
    ...defining('CREATE SUBSCRIPTION'),
    inBlock: ({ options }) =>
      isSwitchedOff(options, 'connect') || isSwitchedOff(options, 'create_slot') ? 'same' : 'refused',
    reach: { beyond: 'server', why: 'it connects to a publisher and makes a slot there' },
    outside: ({ subname = '' }) => `CREATE SUBSCRIPTION ${subname}`,
  },
  // Whether it refreshes or has a slot decides.
  AlterSubscriptionStmt: {
    ...defining('ALTER SUBSCRIPTION'),
    inBlock: 'differs',
    reach: { beyond: 'server', why: 'it acts on a publisher' },
  },
  DropSubscriptionStmt: {
    ...defining('DROP SUBSCRIPTION'),
    inBlock: 'differs',
    reach: { beyond: 'server', why: 'it drops a slot of a publisher' },
  },

  // Roles.
  CreateRoleStmt: ofCluster('CREATE ROLE', ROLES),
  AlterRoleStmt: ofCluster('ALTER ROLE', ROLES),
  AlterRoleSetStmt: {
    name: 'ALTER ROLE … SET',
    effect: 'cluster',
    reach: ({ database, setstmt }) =>
      database === undefined
        ? { beyond: 'cluster', why: ROLES }
        : beyondOr(reachOfSets([setstmt]), { what: 'ALTER ROLE … IN DATABASE', databases: [database] }),
  },
  DropRoleStmt: ofCluster('DROP ROLE', ROLES),
  GrantRoleStmt: {
    name: 'GRANT or REVOKE of a role',
    tags: ['GRANT ROLE', 'REVOKE ROLE'],
    words: ['GRANT', 'REVOKE'],
    effect: 'cluster',
    reach: ({ is_grant: grants }) => ({
      beyond: 'cluster',
      what: grants ? 'GRANT of a role' : 'REVOKE of a role',
      why: ROLES,
    }),
  },
  ReassignOwnedStmt: ofCluster(
    'REASSIGN OWNED',
    "it changes the owner of the target's objects and of databases too",
  ),
  DropOwnedStmt: ofCluster('DROP OWNED', 'it drops privileges on databases and on the cluster too'),

  // Databases.
  CreatedbStmt: {
    name: 'CREATE DATABASE',
    effect: 'cluster',
    inBlock: 'refused',
    reach: ({ dbname = '', options }) => ({
      what: 'CREATE DATABASE',
      databases: [dbname],
      does: 'create',
      template: stringOf(optionOf(options, 'template')?.arg),
    }),
    elsewhere: true,
  },
  DropdbStmt: {
    name: 'DROP DATABASE',
    effect: 'cluster',
    inBlock: 'refused',
    reach: ({ dbname = '' }) => ({ what: 'DROP DATABASE', databases: [dbname], does: 'drop' }),
    elsewhere: true,
  },
  AlterDatabaseStmt: {
    ...ofDatabase('ALTER DATABASE'),
    inBlock: ({ options }) => (optionOf(options, 'tablespace') ? 'refused' : 'same'),
    reach: ({ dbname = '', options }) => {
      const what = { what: 'ALTER DATABASE', databases: [dbname] };
      return optionOf(options, 'is_template') ? { ...what, does: 'make a template' } : what;
    },
  },
  AlterDatabaseSetStmt: {
    ...ofDatabase('ALTER DATABASE … SET'),
    reach: ({ dbname = '', setstmt }) =>
      beyondOr(reachOfSets([setstmt]), { what: 'ALTER DATABASE', databases: [dbname] }),
  },
  AlterDatabaseRefreshCollStmt: ofDatabase('ALTER DATABASE'),

  // The server.
  CreateTableSpaceStmt: {
    name: 'CREATE TABLESPACE',
    effect: 'cluster',
    inBlock: 'refused',
    reach: { beyond: 'server', why: TOUCHES_FILES },
  },
  DropTableSpaceStmt: { ...ofCluster('DROP TABLESPACE', ACTS_ON_SERVER), inBlock: 'refused' },
  AlterTableSpaceOptionsStmt: ofCluster('ALTER TABLESPACE', ACTS_ON_SERVER),
  AlterSystemStmt: { ...ofCluster('ALTER SYSTEM', ACTS_ON_SERVER), inBlock: 'refused' },
} satisfies Partial<StatementTable<StatementKind>>;

function locksOfPublication(objects: Tree.Node[] | undefined): NamedLock[] {
  return itemsOf<Tree.PublicationObjSpec>(objects, 'PublicationObjSpec').flatMap(({ pubtable }) =>
    lockOn(pubtable?.relation, 'SHARE UPDATE EXCLUSIVE'),
  );
}
