import type * as Tree from 'libpg-query';
import type { Action, ActionOf, Name, NamedLock } from '../../../model/statement-actions.ts';
import { lockOn, locksOfQuery, locksOn, namesOfRanges } from '../query-locks.ts';
import type { StatementKind, StatementTable } from '../statement-properties.ts';
import { itemsOf, nameOf, nameOfParts, nodesWithin, strings } from '../tree.ts';
import { alterations, locksOfAlterTable, releasedByAlterTable, typeName } from './alterations.ts';
import { namesOfObject, reachOfObjects } from './cluster-objects.ts';
import { defining } from './object-kinds.ts';
import { BUILDS_INDEX, replacing } from './storage-kinds.ts';

const detachesConcurrently = ({ cmds }: Tree.AlterTableStmt) =>
  itemsOf<Tree.AlterTableCmd>(cmds, 'AlterTableCmd').some(
    ({ def }) => def && 'PartitionCmd' in def && def.PartitionCmd.concurrent === true,
  );

/** Statements that define relations and what belongs to them, or objects of any sort. */
export const RELATION_KINDS = {
  CreateStmt: {
    ...defining('CREATE TABLE'),
    keptIn: ({ relation }) => relation,
    actions: ({ relation, if_not_exists: ifNotExists = false, partbound, inhRelations, tableElts }) => [
      {
        does: 'create table',
        table: nameOf(relation),
        ifNotExists,
        partitionOf: partbound ? (namesOfRanges(inhRelations)[0] ?? null) : null,
        columns: ifNotExists
          ? itemsOf<Tree.ColumnDef>(tableElts, 'ColumnDef').map((column) => ({
              name: column.colname ?? '',
              type: typeName(column),
            }))
          : undefined,
      },
    ],
    locks: locksOfCreateTable,
  },
  CreateTableAsStmt: { ...defining('CREATE TABLE AS'), evaluates: true, keptIn: ({ into }) => into?.rel },
  CreateForeignTableStmt: { ...defining('CREATE FOREIGN TABLE'), runs: 'unknown' },
  AlterTableStmt: {
    ...defining('ALTER TABLE'),
    keptIn: ({ relation }) => relation,
    inBlock: (fields) => (detachesConcurrently(fields) ? 'refused' : 'same'),
    concurrent: { says: detachesConcurrently, failure: 'another meaning' },
    actions: alterations,
    locks: locksOfAlterTable,
    releases: releasedByAlterTable,
  },
  AlterTableMoveAllStmt: {
    ...defining('ALTER … ALL IN TABLESPACE'),
    nowait: ({ nowait }) => nowait === true,
  },
  IndexStmt: {
    ...defining('CREATE INDEX'),
    keptIn: ({ relation }) => relation,
    inBlock: ({ concurrent }) => (concurrent ? 'refused' : 'same'),
    concurrent: {
      says: ({ concurrent }) => concurrent === true,
      failure: 'an invalid index',
      behind: () => 'INDEX',
    },
    actions: (tree) => [
      {
        does: 'create index',
        table: nameOf(tree.relation),
        index: tree.idxname ?? null,
        method: tree.accessMethod ?? 'btree',
        concurrently: tree.concurrent ?? false,
        unique: tree.unique ?? false,
        ifNotExists: tree.if_not_exists ?? false,
        columns:
          tree.if_not_exists || tree.unique
            ? itemsOf<Tree.IndexElem>(tree.indexParams, 'IndexElem').map(({ name }) => name ?? null)
            : undefined,
        partial: tree.if_not_exists || tree.unique ? tree.whereClause !== undefined : undefined,
        only: tree.relation?.inh !== true,
      },
    ],
    locks: ({ relation, concurrent }) => lockOn(relation, concurrent ? 'SHARE UPDATE EXCLUSIVE' : 'SHARE'),
    progress: [BUILDS_INDEX],
    releases: ({ relation, concurrent }) => (concurrent ? lockOn(relation, 'SHARE UPDATE EXCLUSIVE') : []),
  },
  DropStmt: {
    ...defining('DROP'),
    runs: 'nothing',
    inBlock: ({ concurrent }) => (concurrent ? 'refused' : 'same'),
    concurrent: {
      says: ({ concurrent }) => concurrent === true,
      failure: 'nothing in its way',
      behind: ({ removeType, behavior }) =>
        removeType === 'OBJECT_INDEX' && behavior !== 'DROP_CASCADE' ? 'INDEX' : undefined,
    },
    actions: ({ removeType = '', objects = [], concurrent = false, behavior }) => [
      {
        does: 'drop',
        kind: removeType.replace('OBJECT_', '').replace('MATVIEW', 'materialized view').toLowerCase(),
        objects: objects.map(objectName),
        concurrently: concurrent,
        cascade: behavior === 'DROP_CASCADE',
      },
    ],
    locks: locksOfDrop,
    releases: ({ objects = [], concurrent }) =>
      concurrent
        ? objects.flatMap((object) =>
            replacing({ relation: objectName(object), mode: 'SHARE UPDATE EXCLUSIVE' }),
          )
        : [],
  },
  ViewStmt: {
    ...defining('CREATE VIEW'),
    keptIn: ({ view }) => view,
    writesThrough: true,
    locks: ({ replace, view, query }) => [
      ...(replace ? lockOn(view, 'ACCESS EXCLUSIVE') : []),
      ...locksOfQuery({ query }),
    ],
  },
  RuleStmt: {
    ...defining('CREATE RULE'),
    keptIn: ({ relation }) => relation,
    locks: ({ relation }) => lockOn(relation, 'ACCESS EXCLUSIVE'),
  },
  CreateTrigStmt: {
    ...defining('CREATE TRIGGER'),
    runs: 'nothing',
    actions: ({ relation, trigname: trigger = '' }) => [
      { does: 'create trigger', table: nameOf(relation), trigger },
    ],
    locks: ({ relation }) => lockOn(relation, 'SHARE ROW EXCLUSIVE'),
  },
  CreatePolicyStmt: {
    ...defining('CREATE POLICY'),
    keptIn: ({ table }) => table,
    locks: ({ table }) => lockOn(table, 'ACCESS EXCLUSIVE'),
  },
  AlterPolicyStmt: {
    ...defining('ALTER POLICY'),
    keptIn: ({ table }) => table,
    locks: ({ table }) => lockOn(table, 'ACCESS EXCLUSIVE'),
  },
  CreateSeqStmt: defining('CREATE SEQUENCE'),
  AlterSeqStmt: {
    ...defining('ALTER SEQUENCE'),
    locks: ({ sequence }) => lockOn(sequence, 'SHARE ROW EXCLUSIVE'),
  },
  CreateStatsStmt: {
    ...defining('CREATE STATISTICS'),
    keptIn: ({ relations }) => itemsOf<Tree.RangeVar>(relations, 'RangeVar')[0],
    locks: ({ relations }) => locksOn(relations, 'SHARE UPDATE EXCLUSIVE'),
  },
  AlterStatsStmt: defining('ALTER STATISTICS'),

  // Objects of any sort.
  CreateSchemaStmt: defining('CREATE SCHEMA'),
  RenameStmt: {
    ...defining('ALTER … RENAME'),
    runs: 'nothing',
    reach: ({ renameType, subname = '' }) =>
      renameType === 'OBJECT_DATABASE'
        ? { what: 'ALTER DATABASE … RENAME', databases: [subname], does: 'rename' }
        : reachOfObjects('ALTER … RENAME', renameType, [subname]),
    actions: (tree) => [
      {
        does: 'rename',
        table: tree.relation ? nameOf(tree.relation) : null,
        column: tree.renameType === 'OBJECT_COLUMN' ? (tree.subname ?? null) : null,
        object: renamedObject(tree),
        to: tree.newname ?? '',
      },
    ],
    locks: ({ relation, renameType }) =>
      lockOn(relation, renameType === 'OBJECT_INDEX' ? 'SHARE UPDATE EXCLUSIVE' : 'ACCESS EXCLUSIVE'),
  },
  AlterObjectSchemaStmt: {
    ...defining('ALTER … SET SCHEMA'),
    runs: 'nothing',
    actions: ({ relation, object, newschema = '' }) => [
      {
        does: 'rename',
        table: relation ? nameOf(relation) : null,
        column: null,
        object: object ? objectName(object) : null,
        to: newschema,
      },
    ],
    locks: ({ relation }) => lockOn(relation, 'ACCESS EXCLUSIVE'),
  },
  AlterOwnerStmt: {
    ...defining('ALTER … OWNER'),
    runs: 'nothing',
    reach: ({ objectType, object }) => reachOfObjects('ALTER … OWNER', objectType, namesOfObject(object)),
  },
  AlterObjectDependsStmt: { ...defining('ALTER … DEPENDS ON EXTENSION'), runs: 'nothing' },
  CommentStmt: {
    ...defining('COMMENT'),
    runs: 'nothing',
    reach: ({ objtype, object }) => reachOfObjects('COMMENT', objtype, namesOfObject(object)),
    locks: locksOfComment,
  },
  SecLabelStmt: {
    ...defining('SECURITY LABEL'),
    reach: ({ objtype, object }) => reachOfObjects('SECURITY LABEL', objtype, namesOfObject(object)),
  },
  GrantStmt: {
    ...defining('GRANT or REVOKE'),
    runs: 'nothing',
    words: ['GRANT', 'REVOKE'],
    reach: ({ is_grant: grants, objtype, objects = [] }) =>
      reachOfObjects(grants ? 'GRANT' : 'REVOKE', objtype, strings(objects)),
    actions: revoking,
    locks: () => [],
  },
  AlterDefaultPrivilegesStmt: { ...defining('ALTER DEFAULT PRIVILEGES'), runs: 'nothing' },
} satisfies Partial<StatementTable<StatementKind>>;

const REVOKED_FROM: Readonly<Partial<Record<Tree.ObjectType, ActionOf<'revoke'>['from']>>> = {
  OBJECT_TABLE: 'relation',
  OBJECT_SEQUENCE: 'relation',
  OBJECT_FUNCTION: 'function',
  OBJECT_PROCEDURE: 'function',
  OBJECT_ROUTINE: 'function',
  OBJECT_SCHEMA: 'schema',
};

function revoking(grant: Tree.GrantStmt): Action[] {
  const {
    is_grant: grants,
    grant_option: keepsRight,
    targtype,
    objtype,
    objects = [],
    privileges,
    grantees,
  } = grant;
  const from = REVOKED_FROM[objtype ?? 'OBJECT_TYPE'];
  if (grants || keepsRight || targtype !== 'ACL_TARGET_OBJECT' || !from) return [];
  const roles = itemsOf<Tree.RoleSpec>(grantees, 'RoleSpec').flatMap(({ rolename }) => rolename ?? []);
  const named = itemsOf<Tree.AccessPriv>(privileges, 'AccessPriv').map(
    ({ priv_name: name = 'all', cols }) => ({
      name: name.toUpperCase(),
      columns: strings(cols),
    }),
  );
  return [
    {
      does: 'revoke',
      from,
      objects: objects.map(revokedObject),
      roles,
      privileges: named.length > 0 ? named : [{ name: 'ALL', columns: [] }],
    },
  ];
}

function revokedObject(node: Tree.Node): ActionOf<'revoke'>['objects'][number] {
  if ('RangeVar' in node) return { name: nameOf(node.RangeVar), arguments: null };
  const { objargs = [], args_unspecified: isUnspecified = false } =
    'ObjectWithArgs' in node ? node.ObjectWithArgs : {};
  const types = itemsOf<Tree.TypeName>(objargs, 'TypeName').map((type) => typeName({ typeName: type }));
  return { name: objectName(node), arguments: isUnspecified ? null : types };
}

/** CREATE TABLE names its parents, and the tables that its foreign keys reference. */
function locksOfCreateTable({
  inhRelations,
  partbound,
  tableElts,
  if_not_exists: mayBe,
}: Tree.CreateStmt): NamedLock[] {
  if (mayBe) return [];
  const referenced = nodesWithin(tableElts, 'Constraint').flatMap(({ pktable }) =>
    lockOn(pktable, 'SHARE ROW EXCLUSIVE'),
  );
  const likes = nodesWithin(tableElts, 'TableLikeClause').flatMap(({ relation }) =>
    lockOn(relation, 'ACCESS SHARE'),
  );
  return [
    ...locksOn(inhRelations, partbound ? 'ACCESS EXCLUSIVE' : 'SHARE UPDATE EXCLUSIVE'),
    ...referenced,
    ...likes,
  ];
}

const RELATIONS = /^OBJECT_(?:TABLE|VIEW|MATVIEW|SEQUENCE|INDEX|FOREIGN_TABLE)$/;
const PARTS = /^OBJECT_(?:TRIGGER|RULE|POLICY)$/;

function locksOfDrop({ removeType = 'OBJECT_TYPE', objects = [], concurrent }: Tree.DropStmt): NamedLock[] {
  if (concurrent) return [];
  return objects.flatMap((object): NamedLock[] => {
    const parts = 'List' in object ? (object.List.items ?? []) : [];
    const mode = 'ACCESS EXCLUSIVE' as const;
    if (PARTS.test(removeType)) return [{ relation: nameOfParts(parts.slice(0, -1)), mode }];
    if (!RELATIONS.test(removeType)) return [];
    return [{ relation: nameOfParts(parts), mode, ...(removeType === 'OBJECT_INDEX' && { ofTable: mode }) }];
  });
}

const COMMENTED: ReadonlySet<string> = new Set([
  'OBJECT_TABLE',
  'OBJECT_COLUMN',
  'OBJECT_VIEW',
  'OBJECT_MATVIEW',
  'OBJECT_SEQUENCE',
  'OBJECT_INDEX',
]);

function locksOfComment({ objtype = 'OBJECT_TYPE', object }: Tree.CommentStmt): NamedLock[] {
  const parts = object && 'List' in object ? object.List.items : undefined;
  if (!parts || !COMMENTED.has(objtype)) return [];
  const relation = nameOfParts(objtype === 'OBJECT_COLUMN' ? parts.slice(0, -1) : parts);
  return [{ relation, mode: 'SHARE UPDATE EXCLUSIVE' }];
}

/** Reads a name: a list of strings if it has a schema, one string if it has none, a type's name, or a function's. */
function objectName(node: Tree.Node): Name {
  if ('String' in node) return { schema: null, name: node.String.sval ?? '' };
  if ('List' in node) return nameOfParts(node.List.items);
  if ('TypeName' in node) return nameOfParts(node.TypeName.names);
  if ('ObjectWithArgs' in node) return nameOfParts(node.ObjectWithArgs.objname);
  return { schema: null, name: '' };
}

/** Schemas have their name in another place than types, functions and the like. */
function renamedObject({ relation, object, subname }: Tree.RenameStmt): Name | null {
  if (relation) return null;
  return object ? objectName(object) : subname === undefined ? null : { schema: null, name: subname };
}
