import type * as Tree from 'libpg-query';
import type { Action, ConstraintKind, Conversion, Name } from '../model/statement-actions.ts';
import { displayName } from '../postgres/sql/quote.ts';
import { itemsOf, nameOf, nameOfParts, strings } from '../postgres/sql/tree.ts';

/** What ALTER TABLE, and ALTER of its like, asks for, subcommand by subcommand. */
export function alterations({ relation, cmds, objtype }: Tree.AlterTableStmt): Action[] {
  if (!RELATIONS.has(objtype ?? '')) return [];
  const table = nameOf(relation);
  return itemsOf<Tree.AlterTableCmd>(cmds, 'AlterTableCmd').flatMap((command) => alteration(table, command));
}

const RELATIONS = new Set(['OBJECT_TABLE', 'OBJECT_MATVIEW', 'OBJECT_INDEX']);

function alteration(table: Name, { subtype, name = '', def, behavior }: Tree.AlterTableCmd): Action[] {
  const cascade = behavior === 'DROP_CASCADE';
  const partition = def && 'PartitionCmd' in def ? def.PartitionCmd : undefined;
  switch (subtype) {
    case 'AT_AddColumn':
      return def && 'ColumnDef' in def ? newColumn(table, def.ColumnDef) : [];
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
    case 'AT_ForceRowSecurity':
      return [{ does: 'row security', table, enable: true }];
    case 'AT_DisableRowSecurity':
    case 'AT_NoForceRowSecurity':
      return [{ does: 'row security', table, enable: false }];
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

/** Two of them are equal where the same is written, wherever it stands. */
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
    },
  ];
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

function newColumn(table: Name, definition: Tree.ColumnDef): Action[] {
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
    },
    ...constraints
      .filter(({ contype }) => contype !== 'CONSTR_NOTNULL')
      .flatMap((constraint) => newConstraint(table, constraint, column)),
  ];
}

/** As it would be written: `numeric(12,2)`, `shop.mood[]`. Of an interval without its fields, which the parser tells by numbers. */
function typeName({ typeName: type }: Tree.ColumnDef): string {
  const { schema, name } = nameOfParts(type?.names);
  // The parser puts the types of the standard there.
  const isStandard = schema === null || schema === 'pg_catalog';
  const word = isStandard ? displayName(name) : displayName(schema, name);
  const modifiers = itemsOf<Tree.A_Const>(type?.typmods, 'A_Const').map(({ ival }) => ival?.ival ?? 0);
  const isWhole = name !== 'interval' && modifiers.length > 0 && modifiers.length === type?.typmods?.length;
  return `${word}${isWhole ? `(${modifiers.join(',')})` : ''}${'[]'.repeat(type?.arrayBounds?.length ?? 0)}`;
}
