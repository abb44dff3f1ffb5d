import type * as Tree from 'libpg-query';
import type {
  Action,
  ConstraintKind,
  Conversion,
  KeyTails,
  LockMode,
  Name,
  NamedLock,
  ReleasedLock,
} from '../../../model/statement-actions.ts';
import { LOCK_MODES } from '../../lock-modes.ts';
import { lockOn } from '../query-locks.ts';
import { displayName } from '../quote.ts';
import { tailsOfKey } from '../safer-constraints.ts';
import { itemsOf, nameOf, nameOfParts, nodesWithin, strings } from '../tree.ts';

/** Reads an ALTER TABLE, or an ALTER of its like, subcommand by subcommand. */
export function alterations({ relation, cmds, objtype }: Tree.AlterTableStmt): Action[] {
  if (!RELATIONS.has(objtype ?? '')) return [];
  const table = nameOf(relation);
  return itemsOf<Tree.AlterTableCmd>(cmds, 'AlterTableCmd').flatMap((command) => alteration(table, command));
}

const RELATIONS = new Set(['OBJECT_TABLE', 'OBJECT_MATVIEW', 'OBJECT_INDEX']);

function alteration(
  table: Name,
  { subtype, name = '', def, behavior, missing_ok: ifNotExists = false }: Tree.AlterTableCmd,
): Action[] {
  const cascade = behavior === 'DROP_CASCADE';
  const partition = def && 'PartitionCmd' in def ? def.PartitionCmd : undefined;
  switch (subtype) {
    case 'AT_AddColumn':
      return def && 'ColumnDef' in def ? newColumn(table, def.ColumnDef, ifNotExists) : [];
    case 'AT_AddConstraint':
      return def && 'Constraint' in def ? newConstraint(table, def.Constraint) : [];
    case 'AT_DropColumn':
      return [{ does: 'drop column', table, column: name, cascade }];
    case 'AT_AlterColumnType': {
      if (!def || !('ColumnDef' in def)) return [];
      const type = typeName(def.ColumnDef);
      return [
        { does: 'alter type', table, column: name, type, conversion: conversionOf(name, def.ColumnDef) },
      ];
    }
    case 'AT_SetNotNull':
      return [{ does: 'set not null', table, column: name }];
    case 'AT_DropNotNull':
      return [{ does: 'drop not null', table, column: name }];
    case 'AT_ColumnDefault':
      return [{ does: def ? 'set default' : 'drop default', table, column: name }];
    case 'AT_DisableTrig':
      return [
        { does: 'disable trigger', table, trigger: name, system: name.startsWith('RI_ConstraintTrigger') },
      ];
    case 'AT_DisableTrigAll':
    case 'AT_DisableTrigUser':
      return [{ does: 'disable trigger', table, trigger: null, system: subtype === 'AT_DisableTrigAll' }];
    case 'AT_ValidateConstraint':
      return [{ does: 'validate constraint', table, constraint: name }];
    case 'AT_AlterConstraint': {
      const altered = def && 'ATAlterConstraint' in def ? def.ATAlterConstraint : {};
      // The parser says `is_enforced` of others too.
      return altered.alterEnforceability && altered.is_enforced
        ? [{ does: 'enforce constraint', table, constraint: altered.conname ?? '' }]
        : [];
    }
    case 'AT_DropConstraint':
      return [{ does: 'drop constraint', table, constraint: name, cascade }];
    case 'AT_AttachPartition':
      return [{ does: 'attach partition', table, partition: nameOf(partition?.name) }];
    case 'AT_DetachPartition':
      return [
        {
          does: 'detach partition',
          table,
          partition: nameOf(partition?.name),
          concurrently: partition?.concurrent ?? false,
        },
      ];
    case 'AT_SetLogged':
      return [{ does: 'set logged', table }];
    case 'AT_SetUnLogged':
      return [{ does: 'set unlogged', table }];
    case 'AT_SetAccessMethod':
      return [{ does: 'set access method', table }];
    case 'AT_SetTableSpace':
      return [{ does: 'set tablespace', table }];
    case 'AT_ReplicaIdentity':
      return [{ does: 'replica identity', table }];
    case 'AT_EnableRowSecurity':
      return [{ does: 'row security', table, to: 'enabled' }];
    case 'AT_DisableRowSecurity':
      return [{ does: 'row security', table, to: 'disabled' }];
    case 'AT_ForceRowSecurity':
      return [{ does: 'row security', table, to: 'forced' }];
    case 'AT_NoForceRowSecurity':
      return [{ does: 'row security', table, to: 'no longer forced' }];
    default:
      return [];
  }
}

/** The parser puts USING where the default of a new column stands. */
function conversionOf(column: string, { raw_default: using, typeName: type }: Tree.ColumnDef): Conversion {
  if (!using || isColumn(using, column)) return 'assignment';
  const cast = 'TypeCast' in using ? using.TypeCast : undefined;
  const castsToIt =
    cast?.arg && isColumn(cast.arg, column) && withoutPlaces(cast.typeName) === withoutPlaces(type);
  return castsToIt ? 'cast' : 'expression';
}

function isColumn(node: Tree.Node, column: string): boolean {
  return 'ColumnRef' in node && strings(node.ColumnRef.fields).at(-1) === column;
}

/** Writes a type so that two are equal if the same is written, wherever it stands. */
function withoutPlaces(type: Tree.TypeName | undefined): string {
  return JSON.stringify(type, (key, value) => (key === 'location' ? undefined : value));
}

const CONSTRAINTS: Readonly<Partial<Record<Tree.ConstrType, ConstraintKind>>> = {
  CONSTR_UNIQUE: 'unique',
  CONSTR_PRIMARY: 'primary key',
  CONSTR_EXCLUSION: 'exclude',
  CONSTR_CHECK: 'check',
  CONSTR_FOREIGN: 'foreign key',
  CONSTR_NOTNULL: 'not null',
};

function newConstraint(table: Name, constraint: Tree.Constraint, newColumn?: string): Action[] {
  const kind = CONSTRAINTS[constraint.contype ?? 'CONSTR_NULL'];
  if (kind === undefined) return [];
  const tails = tailsIfAny(constraint);
  const keys = strings(kind === 'foreign key' ? constraint.fk_attrs : constraint.keys);
  return [
    {
      does: 'add constraint',
      table,
      kind,
      constraint: constraint.conname ?? null,
      columns: newColumn === undefined ? keys : [newColumn],
      usingIndex: constraint.indexname ?? null,
      notValid: constraint.skip_validation ?? false,
      references: constraint.pktable ? nameOf(constraint.pktable) : null,
      provesNotNull: kind === 'check' ? provenBy(constraint.raw_expr) : [],
      ofNewColumn: newColumn !== undefined,
      ...(tails === undefined ? {} : { tails }),
    },
  ];
}

function tailsIfAny(constraint: Tree.Constraint): KeyTails | undefined {
  if (constraint.contype !== 'CONSTR_UNIQUE' && constraint.contype !== 'CONSTR_PRIMARY') return undefined;
  const tails = tailsOfKey(constraint);
  return tails.ofIndex === '' && tails.ofConstraint === '' ? undefined : tails;
}

/** Columns that cannot be null where the expression is true: `a IS NOT NULL AND …`. */
function provenBy(expression: Tree.Node | undefined): string[] {
  if (!expression) return [];
  if ('BoolExpr' in expression) {
    const { boolop, args } = expression.BoolExpr;
    return boolop === 'AND_EXPR' ? (args ?? []).flatMap(provenBy) : [];
  }
  if (!('NullTest' in expression)) return [];
  const { nulltesttype, arg } = expression.NullTest;
  const column = arg && 'ColumnRef' in arg ? strings(arg.ColumnRef.fields).at(-1) : undefined;
  return nulltesttype === 'IS_NOT_NULL' && column !== undefined ? [column] : [];
}

function newColumn(table: Name, definition: Tree.ColumnDef, ifNotExists: boolean): Action[] {
  const constraints = itemsOf<Tree.Constraint>(definition.constraints, 'Constraint');
  const has = (kind: Tree.ConstrType) => constraints.some(({ contype }) => contype === kind);
  const column = definition.colname ?? '';
  return [
    {
      does: 'add column',
      table,
      column,
      type: typeName(definition),
      notNull: has('CONSTR_NOTNULL') || has('CONSTR_PRIMARY'),
      hasDefault: has('CONSTR_DEFAULT'),
      identity: has('CONSTR_IDENTITY'),
      stored: constraints.some(
        ({ contype, generated_kind: kind }) => contype === 'CONSTR_GENERATED' && kind !== 'v',
      ),
      ifNotExists: ifNotExists || undefined,
    },
    ...constraints
      .filter(({ contype }) => contype !== 'CONSTR_NOTNULL')
      .flatMap((constraint) => newConstraint(table, constraint, column)),
  ];
}

/** Writes a type: `numeric(12,2)`, `shop.mood[]`. An interval loses its fields, which the parser gives as numbers. */
export function typeName({ typeName: type }: Tree.ColumnDef): string {
  const { schema, name } = nameOfParts(type?.names);
  // The parser puts the types of the standard there.
  const isStandard = schema === null || schema === 'pg_catalog';
  const word = isStandard ? displayName(name) : displayName(schema, name);
  const modifiers = itemsOf<Tree.A_Const>(type?.typmods, 'A_Const').map(({ ival }) => ival?.ival ?? 0);
  const isWhole = name !== 'interval' && modifiers.length > 0 && modifiers.length === type?.typmods?.length;
  return `${word}${isWhole ? `(${modifiers.join(',')})` : ''}${'[]'.repeat(type?.arrayBounds?.length ?? 0)}`;
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

/** Returns the locks of an ALTER TABLE by its subcommands, as AlterTableGetLockLevel() has them. */
export function locksOfAlterTable({ relation, cmds }: Tree.AlterTableStmt): NamedLock[] {
  const commands = itemsOf<Tree.AlterTableCmd>(cmds, 'AlterTableCmd');
  const modes = commands.map(modeOfSubcommand);
  const strongest = LOCK_MODES.findLast((mode) => modes.includes(mode));
  const referenced = nodesWithin(cmds, 'Constraint').flatMap(({ pktable }) =>
    lockOn(pktable, 'SHARE ROW EXCLUSIVE'),
  );
  const partitions = commands.flatMap(({ def }) =>
    def && 'PartitionCmd' in def ? lockOn(def.PartitionCmd.name, 'ACCESS EXCLUSIVE') : [],
  );
  const parents = commands.flatMap(({ subtype, def }) =>
    subtype === 'AT_AddInherit' && def && 'RangeVar' in def
      ? lockOn(def.RangeVar, 'SHARE UPDATE EXCLUSIVE')
      : [],
  );
  return [...lockOn(relation, strongest), ...referenced, ...partitions, ...parents];
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

/** Returns the locks of DETACH PARTITION CONCURRENTLY, which commits after it has marked the partition. */
export function releasedByAlterTable({ relation, cmds }: Tree.AlterTableStmt): ReleasedLock[] {
  return itemsOf<Tree.AlterTableCmd>(cmds, 'AlterTableCmd').flatMap(({ subtype, def }) => {
    if (subtype !== 'AT_DetachPartition' || !def || !('PartitionCmd' in def)) return [];
    const { concurrent, name } = def.PartitionCmd;
    if (!concurrent) return [];
    return [
      ...lockOn(relation, 'SHARE UPDATE EXCLUSIVE'),
      ...lockOn(name, 'SHARE UPDATE EXCLUSIVE'),
      ...lockOn(name, 'ACCESS EXCLUSIVE', { ofIndexes: 'ACCESS EXCLUSIVE' }).map((lock) => ({
        ...lock,
        atEnd: true as const,
      })),
    ];
  });
}
