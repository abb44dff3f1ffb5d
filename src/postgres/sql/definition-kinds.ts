import type * as Tree from 'libpg-query';
import type { StatementKind, StatementTable } from './statement-properties.ts';
import { isSwitchedOff, itemsOf, optionOf } from './tree.ts';

const schema = (name: string) => ({ name, effect: 'schema' }) as const;
const cluster = (name: string) => ({ name, effect: 'cluster' }) as const;

const detachesConcurrently = ({ cmds }: Tree.AlterTableStmt) =>
  itemsOf<Tree.AlterTableCmd>(cmds, 'AlterTableCmd').some(
    ({ def }) => def && 'PartitionCmd' in def && def.PartitionCmd.concurrent === true,
  );

/** The part of the table that holds the statements which change definitions: of the database's objects, and of the cluster. */
export const DEFINITION_KINDS = {
  // Relations.
  CreateStmt: schema('CREATE TABLE'),
  CreateTableAsStmt: { ...schema('CREATE TABLE AS'), evaluates: true },
  CreateForeignTableStmt: schema('CREATE FOREIGN TABLE'),
  AlterTableStmt: {
    ...schema('ALTER TABLE'),
    inBlock: (fields) => (detachesConcurrently(fields) ? 'refused' : 'same'),
    concurrent: { says: detachesConcurrently, failure: 'another meaning' },
  },
  AlterTableMoveAllStmt: {
    ...schema('ALTER … ALL IN TABLESPACE'),
    nowait: ({ nowait }) => nowait === true,
  },
  IndexStmt: {
    ...schema('CREATE INDEX'),
    inBlock: ({ concurrent }) => (concurrent ? 'refused' : 'same'),
    concurrent: { says: ({ concurrent }) => concurrent === true, failure: 'an invalid index' },
  },
  DropStmt: {
    ...schema('DROP'),
    inBlock: ({ concurrent }) => (concurrent ? 'refused' : 'same'),
    concurrent: { says: ({ concurrent }) => concurrent === true, failure: 'nothing in its way' },
  },
  ViewStmt: schema('CREATE VIEW'),
  RuleStmt: schema('CREATE RULE'),
  CreateTrigStmt: schema('CREATE TRIGGER'),
  CreatePolicyStmt: schema('CREATE POLICY'),
  AlterPolicyStmt: schema('ALTER POLICY'),
  CreateSeqStmt: schema('CREATE SEQUENCE'),
  AlterSeqStmt: schema('ALTER SEQUENCE'),
  CreateStatsStmt: schema('CREATE STATISTICS'),
  AlterStatsStmt: schema('ALTER STATISTICS'),

  // Objects of any sort.
  CreateSchemaStmt: schema('CREATE SCHEMA'),
  RenameStmt: { ...schema('ALTER … RENAME'), reach: 'depends' },
  AlterObjectSchemaStmt: schema('ALTER … SET SCHEMA'),
  AlterOwnerStmt: { ...schema('ALTER … OWNER'), reach: 'depends' },
  AlterObjectDependsStmt: schema('ALTER … DEPENDS ON EXTENSION'),
  CommentStmt: { ...schema('COMMENT'), reach: 'depends' },
  SecLabelStmt: { ...schema('SECURITY LABEL'), reach: 'depends' },
  GrantStmt: { ...schema('GRANT or REVOKE'), words: ['GRANT', 'REVOKE'], reach: 'depends' },
  AlterDefaultPrivilegesStmt: schema('ALTER DEFAULT PRIVILEGES'),

  // Types, functions, operators.
  DefineStmt: schema('CREATE'),
  CompositeTypeStmt: schema('CREATE TYPE'),
  CreateEnumStmt: schema('CREATE TYPE'),
  CreateRangeStmt: schema('CREATE TYPE'),
  AlterTypeStmt: schema('ALTER TYPE'),
  AlterEnumStmt: schema('ALTER TYPE'),
  CreateDomainStmt: schema('CREATE DOMAIN'),
  AlterDomainStmt: schema('ALTER DOMAIN'),
  AlterCollationStmt: schema('ALTER COLLATION'),
  CreateConversionStmt: schema('CREATE CONVERSION'),
  CreateCastStmt: schema('CREATE CAST'),
  CreateTransformStmt: schema('CREATE TRANSFORM'),
  CreateFunctionStmt: schema('CREATE FUNCTION'),
  AlterFunctionStmt: schema('ALTER FUNCTION'),
  AlterOperatorStmt: schema('ALTER OPERATOR'),
  CreateOpClassStmt: schema('CREATE OPERATOR CLASS'),
  CreateOpFamilyStmt: schema('CREATE OPERATOR FAMILY'),
  AlterOpFamilyStmt: schema('ALTER OPERATOR FAMILY'),
  CreateAmStmt: schema('CREATE ACCESS METHOD'),
  CreatePLangStmt: schema('CREATE LANGUAGE'),
  AlterTSConfigurationStmt: schema('ALTER TEXT SEARCH CONFIGURATION'),
  AlterTSDictionaryStmt: schema('ALTER TEXT SEARCH DICTIONARY'),
  CreateExtensionStmt: schema('CREATE EXTENSION'),
  AlterExtensionStmt: schema('ALTER EXTENSION'),
  AlterExtensionContentsStmt: schema('ALTER EXTENSION'),
  CreateEventTrigStmt: schema('CREATE EVENT TRIGGER'),
  AlterEventTrigStmt: schema('ALTER EVENT TRIGGER'),

  // Other servers.
  CreateFdwStmt: schema('CREATE FOREIGN DATA WRAPPER'),
  AlterFdwStmt: schema('ALTER FOREIGN DATA WRAPPER'),
  CreateForeignServerStmt: schema('CREATE SERVER'),
  AlterForeignServerStmt: schema('ALTER SERVER'),
  CreateUserMappingStmt: schema('CREATE USER MAPPING'),
  AlterUserMappingStmt: schema('ALTER USER MAPPING'),
  DropUserMappingStmt: schema('DROP USER MAPPING'),
  ImportForeignSchemaStmt: schema('IMPORT FOREIGN SCHEMA'),
  CreatePublicationStmt: schema('CREATE PUBLICATION'),
  AlterPublicationStmt: schema('ALTER PUBLICATION'),
  CreateSubscriptionStmt: {
    ...schema('CREATE SUBSCRIPTION'),
    inBlock: ({ options }) =>
      isSwitchedOff(options, 'connect') || isSwitchedOff(options, 'create_slot') ? 'same' : 'refused',
    reach: 'server',
  },
  // Whether it refreshes or has a slot decides.
  AlterSubscriptionStmt: { ...schema('ALTER SUBSCRIPTION'), inBlock: 'differs', reach: 'server' },
  DropSubscriptionStmt: { ...schema('DROP SUBSCRIPTION'), inBlock: 'differs', reach: 'server' },

  // The cluster.
  CreateRoleStmt: { ...cluster('CREATE ROLE'), reach: 'cluster' },
  AlterRoleStmt: { ...cluster('ALTER ROLE'), reach: 'cluster' },
  AlterRoleSetStmt: { ...cluster('ALTER ROLE … SET'), reach: 'depends' },
  DropRoleStmt: { ...cluster('DROP ROLE'), reach: 'cluster' },
  GrantRoleStmt: {
    name: 'GRANT or REVOKE of a role',
    words: ['GRANT', 'REVOKE'],
    effect: 'cluster',
    reach: 'depends',
  },
  ReassignOwnedStmt: { ...cluster('REASSIGN OWNED'), reach: 'cluster' },
  DropOwnedStmt: { ...cluster('DROP OWNED'), reach: 'cluster' },
  CreatedbStmt: {
    ...cluster('CREATE DATABASE'),
    inBlock: 'refused',
    reach: 'depends',
    elsewhere: true,
  },
  DropdbStmt: {
    ...cluster('DROP DATABASE'),
    inBlock: 'refused',
    reach: 'depends',
    elsewhere: true,
  },
  AlterDatabaseStmt: {
    ...cluster('ALTER DATABASE'),
    inBlock: ({ options }) => (optionOf(options, 'tablespace') ? 'refused' : 'same'),
    reach: 'depends',
  },
  AlterDatabaseSetStmt: { ...cluster('ALTER DATABASE … SET'), reach: 'depends' },
  AlterDatabaseRefreshCollStmt: { ...cluster('ALTER DATABASE'), reach: 'depends' },
  CreateTableSpaceStmt: { ...cluster('CREATE TABLESPACE'), inBlock: 'refused', reach: 'server' },
  DropTableSpaceStmt: { ...cluster('DROP TABLESPACE'), inBlock: 'refused', reach: 'cluster' },
  AlterTableSpaceOptionsStmt: { ...cluster('ALTER TABLESPACE'), reach: 'cluster' },
  AlterSystemStmt: { ...cluster('ALTER SYSTEM'), inBlock: 'refused', reach: 'cluster' },
} satisfies Partial<StatementTable<StatementKind>>;
