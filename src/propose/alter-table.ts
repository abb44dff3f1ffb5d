import type * as Tree from 'libpg-query';
import { type AlterCommand, alterCommands } from '../postgres/sql/alter-commands.ts';
import { fieldsIf } from '../postgres/sql/classify-statement.ts';
import { identifier } from '../postgres/sql/quote.ts';
import { notNullSteps, notValidSteps } from '../postgres/sql/safer-constraints.ts';
import { notValidForm } from '../postgres/sql/safer-texts.ts';
import { isWord, slice } from '../postgres/sql/tokens.ts';
import { itemsOf, nodesWithin, strings } from '../postgres/sql/tree.ts';
import { fillInBatches } from './batches.ts';
import { constraintFromIndex } from './concurrent-forms.ts';
import { attach, detach } from './partitions.ts';
import { retype } from './retype.ts';
import {
  type AlterTable,
  columnList,
  isLeft,
  left,
  type Rewriting,
  type ScriptStep,
  type Subject,
  step,
  writtenName,
} from './subject.ts';

/** The name of a constraint is at most so long, in bytes. */
const LONGEST_NAME = 63;

/**
 * Takes the commands apart that have a safer form, and leaves the others together, in their order. PostgreSQL's own order of the commands
 * of one ALTER TABLE may be another one; the proof shows if that matters.
 */
export function alterTable(subject: Subject): Rewriting {
  const tree = fieldsIf(subject.node, 'AlterTableStmt');
  const commands = tree && alterCommands(subject, tree);
  if (!commands) return left('it is not an ALTER TABLE that can be taken apart');
  const prefix = slice(subject.sql, 0, commands[0]?.from);
  const alter: AlterTable = { subject, table: tree.relation, written: writtenName(subject, tree.relation) };
  const steps: ScriptStep[] = [];
  const together: string[] = [];
  const reasons: string[] = [];
  for (const command of commands) {
    const rewriting = rewriteCommand(alter, command);
    if (rewriting && !isLeft(rewriting)) steps.push(...altering(prefix, together.splice(0)), ...rewriting);
    else together.push(command.text);
    if (rewriting && isLeft(rewriting)) reasons.push(rewriting.reason);
  }
  if (steps.length === 0) return left(reasons[0] ?? 'none of its commands has a safer form');
  return [...steps, ...altering(prefix, together)];
}

function altering(prefix: string, commands: readonly string[]): ScriptStep[] {
  return commands.length === 0 ? [] : [step(`${prefix} ${commands.join(', ')}`)];
}

/** Returns undefined for a command in which no hazard was found that could be taken away. */
function rewriteCommand(alter: AlterTable, command: AlterCommand): Rewriting | undefined {
  const { codes, rewrites } = alter.subject;
  const { subtype, name = '', def } = command.fields;
  switch (subtype) {
    case 'AT_AddConstraint':
      return def && 'Constraint' in def ? addConstraint(alter, command, def.Constraint) : undefined;
    case 'AT_SetNotNull':
      return codes.has('SET_NOT_NULL_SCANS_TABLE') ? setNotNull(alter, name) : undefined;
    case 'AT_AlterColumnType':
      return codes.has('TYPE_CHANGE_REWRITES') && rewrites(name) ? retype(alter, command) : undefined;
    case 'AT_AddColumn':
      return def && 'ColumnDef' in def ? addColumn(alter, command, def.ColumnDef) : undefined;
    case 'AT_AttachPartition':
      return codes.has('ATTACH_PARTITION_SCANS_TABLE') ? attach(alter, command) : undefined;
    case 'AT_DetachPartition':
      return codes.has('DETACH_PARTITION_NOT_CONCURRENT') ? detach(alter, command) : undefined;
    default:
      return undefined;
  }
}

const SCANNING: Readonly<Partial<Record<Tree.ConstrType, string>>> = {
  CONSTR_CHECK: 'CHECK_SCANS_TABLE',
  CONSTR_FOREIGN: 'FOREIGN_KEY_SCANS_TABLE',
  CONSTR_NOTNULL: 'SET_NOT_NULL_SCANS_TABLE',
};

/** Constraints that are taken out of the definition of a new column. */
const ON_COLUMNS: Readonly<Partial<Record<Tree.ConstrType, string>>> = {
  CONSTR_CHECK: 'CHECK_SCANS_TABLE',
  CONSTR_FOREIGN: 'FOREIGN_KEY_SCANS_TABLE',
  CONSTR_UNIQUE: 'CONSTRAINT_BUILDS_INDEX',
};

function addConstraint(
  alter: AlterTable,
  command: AlterCommand,
  constraint: Tree.Constraint,
): Rewriting | undefined {
  const { subject, table, written } = alter;
  const { contype = 'CONSTR_NULL', indexname } = constraint;
  const named = constraint.conname ?? defaultName(table?.relname ?? '', constraint);
  const name = identifier(named);
  const isTooLong = Buffer.byteLength(named) > LONGEST_NAME;
  if (contype === 'CONSTR_UNIQUE' || contype === 'CONSTR_PRIMARY') {
    if (indexname !== undefined) return fromIndex(alter, command);
    if (!subject.codes.has('CONSTRAINT_BUILDS_INDEX')) return undefined;
    if (isTooLong) return left('its name is not known: give it one');
    const built = constraintFromIndex(subject, table, { ...constraint, conname: named }, written);
    return isLeft(built) || contype === 'CONSTR_UNIQUE'
      ? built
      : [...notNullFirst(alter, strings(constraint.keys)), ...built];
  }
  const code = SCANNING[contype];
  if (code === undefined || !subject.codes.has(code) || constraint.skip_validation) return undefined;
  if (isTooLong) return left('its name is not known: give it one');
  const body = bodyOf(subject, constraint, command);
  const [add, validate] = notValidSteps(written, name, body);
  const asNamed = notValidForm(subject) ?? `ALTER TABLE ${written} ADD ${body} NOT VALID`;
  return [constraint.conname === undefined ? add : asNamed, validate].map(step);
}

/** The constraint as one of its table: a foreign key of a column does not name it. */
function bodyOf(
  { sql, tokens }: Subject,
  { contype, location = 0, keys }: Tree.Constraint,
  { to }: AlterCommand,
) {
  const isOfColumn = contype === 'CONSTR_FOREIGN' && keys !== undefined;
  const references = tokens.find((token) => token.from >= location && isWord(token, 'REFERENCES'));
  if (!isOfColumn || !references) return slice(sql, location, to);
  const name = slice(sql, location, references.from);
  return `${name} FOREIGN KEY (${columnList(strings(keys))}) ${slice(sql, references.from, to)}`.trim();
}

/** Returns the name that PostgreSQL gives it if no other constraint has that; if one has, the proof shows it. */
function defaultName(table: string, { contype, keys, fk_attrs, raw_expr }: Tree.Constraint): string {
  if (contype === 'CONSTR_PRIMARY') return `${table}_pkey`;
  if (contype === 'CONSTR_CHECK') {
    const names = nodesWithin([raw_expr], 'ColumnRef').map(({ fields }) => strings(fields).at(-1) ?? '');
    const columns = [...new Set(names)];
    return columns.length === 1 ? `${table}_${columns[0]}_check` : `${table}_check`;
  }
  const suffix = { CONSTR_UNIQUE: 'key', CONSTR_NOTNULL: 'not_null' }[contype as string] ?? 'fkey';
  return [table, ...strings(contype === 'CONSTR_FOREIGN' ? fk_attrs : keys), suffix].join('_');
}

/** PRIMARY KEY USING INDEX. */
function fromIndex(alter: AlterTable, { text }: AlterCommand): Rewriting | undefined {
  const { codes, newlyNotNull } = alter.subject;
  if (!codes.has('PRIMARY_KEY_SETS_NOT_NULL')) return undefined;
  const proven = newlyNotNull(alter.table).flatMap((column) => setNotNull(alter, column));
  return [...proven, step(`ALTER TABLE ${alter.written} ${text}`)];
}

function notNullFirst(alter: AlterTable, columns: readonly string[]): ScriptStep[] {
  const nullable = alter.subject.before(alter.table)?.nullable;
  const unproven = columns.filter((column) => nullable?.has(column) !== false);
  return unproven.flatMap((column) => setNotNull(alter, column));
}

function setNotNull({ table, written }: AlterTable, column: string): ScriptStep[] {
  return notNullSteps(written, identifier(column), table?.relname).map(step);
}

/** Takes out of the definition what has to read or fill the table. Returns undefined if that is nothing. */
function addColumn(alter: AlterTable, command: AlterCommand, column: Tree.ColumnDef): Rewriting | undefined {
  const { subject, table, written } = alter;
  const { colname = '', collClause } = column;
  const constraints = itemsOf<Tree.Constraint>(column.constraints, 'Constraint');
  const parts = partsOf(subject, command, constraints);
  const [first] = parts;
  const value = parts.find(({ type }) => type === 'CONSTR_DEFAULT')?.text;
  const fills =
    value !== undefined && subject.codes.has('VOLATILE_DEFAULT_REWRITES') && subject.rewrites(colname);
  const isFilled = (type: Tree.ConstrType | undefined) =>
    fills && (type === 'CONSTR_DEFAULT' || type === 'CONSTR_NOTNULL');
  // As long as the column is not filled it has no key.
  const keyed = parts.some(({ type }) => fills && type === 'CONSTR_PRIMARY');
  const checked = parts.filter(
    ({ type }) =>
      (keyed && type === 'CONSTR_PRIMARY') || subject.codes.has(ON_COLUMNS[type ?? 'CONSTR_NULL'] ?? ''),
  );
  if (!fills && checked.length === 0) return undefined;
  if ((collClause?.location ?? 0) > (first?.from ?? Number.POSITIVE_INFINITY))
    return left('its collation stands behind its constraints');
  const kept = parts.filter((part) => !isFilled(part.type) && !checked.includes(part));
  const definition = [slice(subject.sql, command.from, first?.from), ...kept.map(({ text }) => text)].join(
    ' ',
  );
  const isRequired = keyed || parts.some(({ type }) => fills && type === 'CONSTR_NOTNULL');
  const key = subject.before(table)?.key;
  if (fills && !key) return left('its table has no key to fill the column by');
  const apart: ScriptStep[] = [];
  for (const { constraint, to } of checked) {
    const keys = [{ String: { sval: colname } }];
    const added = addConstraint(alter, { ...command, to }, { ...constraint, keys, fk_attrs: keys });
    if (!added || isLeft(added)) return added;
    apart.push(...added);
  }
  return [
    step(
      `ALTER TABLE ${written} ${definition}${fills ? `, ALTER COLUMN ${identifier(colname)} SET ${value}` : ''}`,
    ),
    ...(fills && key ? fillInBatches(written, key, colname) : []),
    ...(isRequired ? setNotNull(alter, colname) : []),
    ...apart,
  ];
}

/** The constraints of a new column, each with the words behind it that say when it is checked. */
function partsOf({ sql }: Subject, { to: end }: AlterCommand, constraints: readonly Tree.Constraint[]) {
  const isAttribute = ({ contype }: Tree.Constraint) => contype?.startsWith('CONSTR_ATTR') === true;
  const owners = constraints.filter((constraint) => !isAttribute(constraint));
  return owners.map((owner, index) => {
    const [from, to] = [owner.location ?? end, owners[index + 1]?.location ?? end];
    const own = constraints.filter(({ location = 0 }) => location > from && location < to);
    const isDeferred = own.some(({ contype }) => contype === 'CONSTR_ATTR_DEFERRED');
    const deferrable = isDeferred || own.some(({ contype }) => contype === 'CONSTR_ATTR_DEFERRABLE');
    const constraint: Tree.Constraint = { ...owner, deferrable, initdeferred: isDeferred };
    return { constraint, from, to, type: owner.contype, text: slice(sql, from, to) };
  });
}
