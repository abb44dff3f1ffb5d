import type * as Tree from 'libpg-query';
import type { StatementKind, StatementTable } from '../statement-properties.ts';
import { itemsOf, strings } from '../tree.ts';
import { namesOfObject, reachOfObjects } from './cluster-objects.ts';
import { defining } from './object-kinds.ts';

const detachesConcurrently = ({ cmds }: Tree.AlterTableStmt) =>
  itemsOf<Tree.AlterTableCmd>(cmds, 'AlterTableCmd').some(
    ({ def }) => def && 'PartitionCmd' in def && def.PartitionCmd.concurrent === true,
  );

/** Statements that define relations and what belongs to them, or objects of any sort. */
export const RELATION_KINDS = {
  CreateStmt: defining('CREATE TABLE'),
  CreateTableAsStmt: { ...defining('CREATE TABLE AS'), evaluates: true },
  CreateForeignTableStmt: defining('CREATE FOREIGN TABLE'),
  AlterTableStmt: {
    ...defining('ALTER TABLE'),
    inBlock: (fields) => (detachesConcurrently(fields) ? 'refused' : 'same'),
    concurrent: { says: detachesConcurrently, failure: 'another meaning' },
  },
  AlterTableMoveAllStmt: {
    ...defining('ALTER … ALL IN TABLESPACE'),
    nowait: ({ nowait }) => nowait === true,
  },
  IndexStmt: {
    ...defining('CREATE INDEX'),
    inBlock: ({ concurrent }) => (concurrent ? 'refused' : 'same'),
    concurrent: { says: ({ concurrent }) => concurrent === true, failure: 'an invalid index' },
  },
  DropStmt: {
    ...defining('DROP'),
    inBlock: ({ concurrent }) => (concurrent ? 'refused' : 'same'),
    concurrent: { says: ({ concurrent }) => concurrent === true, failure: 'nothing in its way' },
  },
  ViewStmt: defining('CREATE VIEW'),
  RuleStmt: defining('CREATE RULE'),
  CreateTrigStmt: defining('CREATE TRIGGER'),
  CreatePolicyStmt: defining('CREATE POLICY'),
  AlterPolicyStmt: defining('ALTER POLICY'),
  CreateSeqStmt: defining('CREATE SEQUENCE'),
  AlterSeqStmt: defining('ALTER SEQUENCE'),
  CreateStatsStmt: defining('CREATE STATISTICS'),
  AlterStatsStmt: defining('ALTER STATISTICS'),

  // Objects of any sort.
  CreateSchemaStmt: defining('CREATE SCHEMA'),
  RenameStmt: {
    ...defining('ALTER … RENAME'),
    reach: ({ renameType, subname = '' }) =>
      renameType === 'OBJECT_DATABASE'
        ? { what: 'ALTER DATABASE … RENAME', databases: [subname], does: 'rename' }
        : reachOfObjects('ALTER … RENAME', renameType, [subname]),
  },
  AlterObjectSchemaStmt: defining('ALTER … SET SCHEMA'),
  AlterOwnerStmt: {
    ...defining('ALTER … OWNER'),
    reach: ({ objectType, object }) => reachOfObjects('ALTER … OWNER', objectType, namesOfObject(object)),
  },
  AlterObjectDependsStmt: defining('ALTER … DEPENDS ON EXTENSION'),
  CommentStmt: {
    ...defining('COMMENT'),
    reach: ({ objtype, object }) => reachOfObjects('COMMENT', objtype, namesOfObject(object)),
  },
  SecLabelStmt: {
    ...defining('SECURITY LABEL'),
    reach: ({ objtype, object }) => reachOfObjects('SECURITY LABEL', objtype, namesOfObject(object)),
  },
  GrantStmt: {
    ...defining('GRANT or REVOKE'),
    words: ['GRANT', 'REVOKE'],
    reach: ({ is_grant: grants, objtype, objects = [] }) =>
      reachOfObjects(grants ? 'GRANT' : 'REVOKE', objtype, strings(objects)),
  },
  AlterDefaultPrivilegesStmt: defining('ALTER DEFAULT PRIVILEGES'),
} satisfies Partial<StatementTable<StatementKind>>;
