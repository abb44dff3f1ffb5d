import type * as Tree from 'libpg-query';
import type { Name } from '../../model/statement-actions.ts';
import { LOCK_MODES, type LockMode } from '../lock-modes.ts';
import { itemsOf, kindOf, type Node, nameOf, nameOfParts, nodesWithin, walkTree } from './tree.ts';

/** A lock that a statement takes on a relation that it names. */
export interface NamedLock {
  readonly relation: Name;
  readonly mode: LockMode;
  /** The relation is an index, whose table is locked in this mode. */
  readonly ofTable?: LockMode;
  /** The relation is a table, whose indexes are locked in this mode. */
  readonly ofIndexes?: LockMode;
}

/**
 * Returns the locks that PostgreSQL takes on the relations which a statement names, by its documentation ("Explicit Locking") and
 * AlterTableGetLockLevel(). Left out is what depends on more than the text: partitions, foreign keys that are dropped, views' tables.
 */
export function namedLocks(node: Node): NamedLock[] {
  const read = READERS[kindOf(node) as keyof typeof READERS] as
    | ((fields: unknown) => NamedLock[])
    | undefined;
  return read ? read(node[kindOf(node)]) : ofQuery(node);
}

const READERS = {
  AlterTableStmt: ofAlterTable,
  IndexStmt: ({ relation, concurrent }: Tree.IndexStmt) =>
    on(relation, concurrent ? 'SHARE UPDATE EXCLUSIVE' : 'SHARE'),
  DropStmt: ofDrop,
  TruncateStmt: ({ relations }: Tree.TruncateStmt) => onAll(relations, 'ACCESS EXCLUSIVE'),
  LockStmt: ({ relations, mode }: Tree.LockStmt) => onAll(relations, LOCK_MODES[(mode ?? 8) - 1]),
  RenameStmt: ({ relation, renameType }: Tree.RenameStmt) =>
    on(relation, renameType === 'OBJECT_INDEX' ? 'SHARE UPDATE EXCLUSIVE' : 'ACCESS EXCLUSIVE'),
  AlterObjectSchemaStmt: ({ relation }: Tree.AlterObjectSchemaStmt) => on(relation, 'ACCESS EXCLUSIVE'),
  AlterSeqStmt: ({ sequence }: Tree.AlterSeqStmt) => on(sequence, 'SHARE ROW EXCLUSIVE'),
  CreateStmt: ofCreateTable,
  CreateTrigStmt: ({ relation }: Tree.CreateTrigStmt) => on(relation, 'SHARE ROW EXCLUSIVE'),
  RuleStmt: ({ relation }: Tree.RuleStmt) => on(relation, 'ACCESS EXCLUSIVE'),
  CreatePolicyStmt: ({ table }: Tree.CreatePolicyStmt) => on(table, 'ACCESS EXCLUSIVE'),
  AlterPolicyStmt: ({ table }: Tree.AlterPolicyStmt) => on(table, 'ACCESS EXCLUSIVE'),
  CreateStatsStmt: ({ relations }: Tree.CreateStatsStmt) => onAll(relations, 'SHARE UPDATE EXCLUSIVE'),
  ViewStmt: (view: Tree.ViewStmt) => [
    ...(view.replace ? on(view.view, 'ACCESS EXCLUSIVE') : []),
    ...ofQuery({ query: view.query }),
  ],
  CreatePublicationStmt: ({ pubobjects }: Tree.CreatePublicationStmt) => ofPublication(pubobjects),
  AlterPublicationStmt: ({ pubobjects }: Tree.AlterPublicationStmt) => ofPublication(pubobjects),
  RefreshMatViewStmt: ({ relation, concurrent }: Tree.RefreshMatViewStmt) =>
    on(relation, concurrent ? 'EXCLUSIVE' : 'ACCESS EXCLUSIVE'),
  ClusterStmt: ({ relation }: Tree.ClusterStmt) =>
    on(relation, 'ACCESS EXCLUSIVE', { ofIndexes: 'ACCESS EXCLUSIVE' }),
  ReindexStmt: ({ relation, kind }: Tree.ReindexStmt) =>
    kind === 'REINDEX_OBJECT_INDEX'
      ? on(relation, 'ACCESS EXCLUSIVE', { ofTable: 'SHARE' })
      : on(relation, 'SHARE', { ofIndexes: 'ACCESS EXCLUSIVE' }),
  VacuumStmt: ({ rels }: Tree.VacuumStmt) =>
    itemsOf<Tree.VacuumRelation>(rels, 'VacuumRelation').flatMap(({ relation }) =>
      on(relation, 'SHARE UPDATE EXCLUSIVE'),
    ),
  CommentStmt: ({ objtype = 'OBJECT_TYPE', object }: Tree.CommentStmt) => {
    const parts = object && 'List' in object ? object.List.items : undefined;
    if (!parts || !COMMENTED.has(objtype)) return [];
    const relation = nameOfParts(objtype === 'OBJECT_COLUMN' ? parts.slice(0, -1) : parts);
    return [{ relation, mode: 'SHARE UPDATE EXCLUSIVE' as const }];
  },
  GrantStmt: () => [],
} satisfies Readonly<Record<string, (fields: never) => NamedLock[]>>;

const COMMENTED: ReadonlySet<string> = new Set([
  'OBJECT_TABLE',
  'OBJECT_COLUMN',
  'OBJECT_VIEW',
  'OBJECT_MATVIEW',
  'OBJECT_SEQUENCE',
  'OBJECT_INDEX',
]);

function on(
  range: Tree.RangeVar | undefined,
  mode: LockMode | undefined,
  more: Pick<NamedLock, 'ofTable' | 'ofIndexes'> = {},
): NamedLock[] {
  return range && mode ? [{ relation: nameOf(range), mode, ...more }] : [];
}

function onAll(ranges: Tree.Node[] | undefined, mode: LockMode | undefined): NamedLock[] {
  return itemsOf<Tree.RangeVar>(ranges, 'RangeVar').flatMap((range) => on(range, mode));
}

/** Subcommands that take less than ACCESS EXCLUSIVE. */
const WEAKER: Readonly<Partial<Record<Tree.AlterTableType, LockMode>>> = {
  AT_EnableTrig: 'SHARE ROW EXCLUSIVE',
  AT_EnableAlwaysTrig: 'SHARE ROW EXCLUSIVE',
  AT_EnableReplicaTrig: 'SHARE ROW EXCLUSIVE',
  AT_EnableTrigAll: 'SHARE ROW EXCLUSIVE',
  AT_EnableTrigUser: 'SHARE ROW EXCLUSIVE',
  AT_DisableTrig: 'SHARE ROW EXCLUSIVE',
  AT_DisableTrigAll: 'SHARE ROW EXCLUSIVE',
  AT_DisableTrigUser: 'SHARE ROW EXCLUSIVE',
  AT_SetStatistics: 'SHARE UPDATE EXCLUSIVE',
  AT_ClusterOn: 'SHARE UPDATE EXCLUSIVE',
  AT_DropCluster: 'SHARE UPDATE EXCLUSIVE',
  AT_SetOptions: 'SHARE UPDATE EXCLUSIVE',
  AT_ResetOptions: 'SHARE UPDATE EXCLUSIVE',
  AT_ValidateConstraint: 'SHARE UPDATE EXCLUSIVE',
  AT_AttachPartition: 'SHARE UPDATE EXCLUSIVE',
  AT_DetachPartitionFinalize: 'SHARE UPDATE EXCLUSIVE',
};

/** Storage parameters of tables and indexes that take no more than SHARE UPDATE EXCLUSIVE. */
const LIGHT_OPTIONS =
  /^(?:autovacuum_\w+|fillfactor|toast_tuple_target|vacuum_\w+|parallel_workers|log_autovacuum_min_duration|n_distinct\w*|deduplicate_items)$/;

function ofAlterTable({ relation, cmds }: Tree.AlterTableStmt): NamedLock[] {
  const commands = itemsOf<Tree.AlterTableCmd>(cmds, 'AlterTableCmd');
  const modes = commands.map(modeOfSubcommand);
  const strongest = LOCK_MODES.findLast((mode) => modes.includes(mode));
  const referenced = nodesWithin(cmds, 'Constraint').flatMap(({ pktable }) =>
    on(pktable, 'SHARE ROW EXCLUSIVE'),
  );
  const partitions = commands.flatMap(({ def }) =>
    def && 'PartitionCmd' in def ? on(def.PartitionCmd.name, 'ACCESS EXCLUSIVE') : [],
  );
  const parents = commands.flatMap(({ subtype, def }) =>
    subtype === 'AT_AddInherit' && def && 'RangeVar' in def ? on(def.RangeVar, 'SHARE UPDATE EXCLUSIVE') : [],
  );
  return [...on(relation, strongest), ...referenced, ...partitions, ...parents];
}

function ofPublication(objects: Tree.Node[] | undefined): NamedLock[] {
  return itemsOf<Tree.PublicationObjSpec>(objects, 'PublicationObjSpec').flatMap(({ pubtable }) =>
    on(pubtable?.relation, 'SHARE UPDATE EXCLUSIVE'),
  );
}

function modeOfSubcommand({ subtype, def }: Tree.AlterTableCmd): LockMode {
  if (subtype === 'AT_AddConstraint' && def && 'Constraint' in def)
    return def.Constraint.contype === 'CONSTR_FOREIGN' ? 'SHARE ROW EXCLUSIVE' : 'ACCESS EXCLUSIVE';
  if (subtype === 'AT_SetRelOptions' || subtype === 'AT_ResetRelOptions') {
    const options =
      def && 'List' in def ? itemsOf<Tree.DefElem>(def.List.items as Tree.Node[], 'DefElem') : [];
    const isLight = options.every(({ defname = '' }) => LIGHT_OPTIONS.test(defname));
    return isLight ? 'SHARE UPDATE EXCLUSIVE' : 'ACCESS EXCLUSIVE';
  }
  return WEAKER[subtype ?? 'AT_AddColumn'] ?? 'ACCESS EXCLUSIVE';
}

/** CREATE TABLE names its parents, and the tables that its foreign keys reference. */
function ofCreateTable({
  inhRelations,
  partbound,
  tableElts,
  if_not_exists: mayBe,
}: Tree.CreateStmt): NamedLock[] {
  if (mayBe) return [];
  const referenced = nodesWithin(tableElts, 'Constraint').flatMap(({ pktable }) =>
    on(pktable, 'SHARE ROW EXCLUSIVE'),
  );
  const likes = nodesWithin(tableElts, 'TableLikeClause').flatMap(({ relation }) =>
    on(relation, 'ACCESS SHARE'),
  );
  return [
    ...onAll(inhRelations, partbound ? 'ACCESS EXCLUSIVE' : 'SHARE UPDATE EXCLUSIVE'),
    ...referenced,
    ...likes,
  ];
}

const RELATIONS = /^OBJECT_(?:TABLE|VIEW|MATVIEW|SEQUENCE|INDEX|FOREIGN_TABLE)$/;
const PARTS = /^OBJECT_(?:TRIGGER|RULE|POLICY)$/;

function ofDrop({ removeType = 'OBJECT_TYPE', objects = [], concurrent }: Tree.DropStmt): NamedLock[] {
  if (concurrent) return [];
  return objects.flatMap((object): NamedLock[] => {
    const parts = 'List' in object ? (object.List.items ?? []) : [];
    const mode = 'ACCESS EXCLUSIVE' as const;
    if (PARTS.test(removeType)) return [{ relation: nameOfParts(parts.slice(0, -1)), mode }];
    if (!RELATIONS.test(removeType)) return [];
    return [{ relation: nameOfParts(parts), mode, ...(removeType === 'OBJECT_INDEX' && { ofTable: mode }) }];
  });
}

const WRITES: ReadonlySet<string> = new Set(['InsertStmt', 'UpdateStmt', 'DeleteStmt', 'MergeStmt']);

/** What a query and the statements within it read, lock and write. */
function ofQuery(node: Node): NamedLock[] {
  const found: NamedLock[] = [];
  const common = new Set(nodesWithin(node, 'CommonTableExpr').map(({ ctename }) => ctename));
  const clauses = new Set<object>(
    nodesWithin(node, 'LockingClause').flatMap(({ lockedRels }) =>
      itemsOf<Tree.RangeVar>(lockedRels, 'RangeVar'),
    ),
  );
  walkTree(node, (key, fields) => {
    if (WRITES.has(key)) found.push(...ofWrite(key, fields));
    if (key === 'RangeVar' && !clauses.has(fields))
      found.push(...on(fields as Tree.RangeVar, 'ACCESS SHARE'));
    if (key === 'SelectStmt') found.push(...ofLockingClauses(fields as Tree.SelectStmt));
  });
  const rows = found.filter(({ mode }) => mode === 'ROW SHARE').map(({ relation }) => relation.name);
  return found.filter(
    ({ relation: { schema, name }, mode }) =>
      (schema !== null || !common.has(name)) && !(mode === 'ACCESS SHARE' && rows.includes(name)),
  );
}

/** The planner opens the indexes of rows that are to be changed; an INSERT lets go of them at its end. */
function ofWrite(kind: string, { relation }: { readonly relation?: Tree.RangeVar }): NamedLock[] {
  return on(relation, 'ROW EXCLUSIVE', kind === 'InsertStmt' ? {} : { ofIndexes: 'ROW EXCLUSIVE' });
}

/** FOR UPDATE locks the tables of its FROM, or those that it names by their alias. */
function ofLockingClauses({ lockingClause, fromClause }: Tree.SelectStmt): NamedLock[] {
  const ranges = nodesWithin(fromClause, 'RangeVar');
  return itemsOf<Tree.LockingClause>(lockingClause, 'LockingClause').flatMap(({ lockedRels }) => {
    const names = itemsOf<Tree.RangeVar>(lockedRels, 'RangeVar').map(({ relname }) => relname);
    return ranges
      .filter(({ alias, relname }) => names.length === 0 || names.includes(alias?.aliasname ?? relname))
      .flatMap((range) => on(range, 'ROW SHARE'));
  });
}
