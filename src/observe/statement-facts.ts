import type * as Tree from 'libpg-query';
import type { StatementSection } from '../model/report.ts';
import { schemasOf } from '../model/search-paths.ts';
import type { Action, ActionOf, Name, StatementFacts } from '../model/statement-actions.ts';
import { LOCK_MODES } from '../postgres/lock-modes.ts';
import { beginsAsDml, effectOf, isRollbackTo, strongestEffect } from '../postgres/sql/classify-statement.ts';
import { LocalNames, type LocalReading } from '../postgres/sql/local-names.ts';
import { normalizeSql } from '../postgres/sql/normalize.ts';
import { parseText } from '../postgres/sql/parse.ts';
import {
  constantOf,
  hasOption,
  itemsOf,
  kindOf,
  type Node,
  nameOf,
  nameOfParts,
  nodesWithin,
} from '../postgres/sql/tree.ts';
import { alterations } from './alter-table-facts.ts';
import { variationsIn } from './moment-values.ts';

/** Above this a text is DML that somebody generated, and the parser would take longer than it is worth. */
const LONGEST_TEXT = 200_000;

/**
 * What each statement asks for, by its index. To be given the texts as they were sent, before literals are taken out
 * of them. Statements of one shape, such as those of a loop, are parsed once.
 */
export async function statementFacts(
  statements: readonly StatementSection[],
): Promise<Map<number, StatementFacts>> {
  const facts = new Map<number, StatementFacts>();
  const known = new Map<string, StatementFacts | undefined>();
  const names = new LocalNames();
  for (const { index, session, sql, startedAt } of statements) {
    if (sql.length > LONGEST_TEXT) continue;
    // The literals of DML say nothing of what it asks for.
    const key = beginsAsDml(sql) ? normalizeSql(sql) : sql;
    if (!known.has(key)) known.set(key, await parsed(sql, Date.parse(startedAt)));
    const found = known.get(key);
    if (!found) continue;
    const local = names.mayConcern(session, sql)
      ? names.read({ session, sql, node: await nodeOf(sql) })
      : null;
    facts.set(index, local ? withLocal(found, local) : found);
  }
  return facts;
}

async function nodeOf(sql: string): Promise<Node | null> {
  return (await parseText(Buffer.from(sql)))?.[0]?.node ?? null;
}

/** An apply compares a statement without its local names, so that they may vary. */
function withLocal(facts: StatementFacts, { own, names }: LocalReading): StatementFacts {
  const varies = ({ value }: ActionOf<'vary'>) => !own && !names.some((name) => name.includes(value));
  return {
    ...facts,
    actions: facts.actions.filter((action) => action.does !== 'vary' || varies(action)),
    local: own,
  };
}

async function parsed(sql: string, at: number): Promise<StatementFacts | undefined> {
  const statements = await parseText(Buffer.from(sql));
  if (!statements) return undefined;
  return {
    actions: statements.flatMap(({ node }) => [...actionsOf(node), ...variationsIn(sql, node, at)]),
    effect: strongestEffect(statements.map(({ node }) => effectOf(node))),
    toSavepoint: statements.some(({ node }) => isRollbackTo(node)),
  };
}

/** What one parsed statement asks for; nothing where no hazard depends on it. */
export function actionsOf(node: Node): Action[] {
  const read = READERS[kindOf(node) as keyof typeof READERS] as ((tree: unknown) => Action[]) | undefined;
  return read ? read(node[kindOf(node)]) : [];
}

const READERS = {
  AlterTableStmt: alterations,
  CreateStmt: (tree: Tree.CreateStmt) => [
    {
      does: 'create table',
      table: nameOf(tree.relation),
      ifNotExists: tree.if_not_exists ?? false,
      partitionOf: tree.partbound ? (ranges(tree.inhRelations)[0] ?? null) : null,
    },
  ],
  IndexStmt: (tree: Tree.IndexStmt) => [
    {
      does: 'create index',
      table: nameOf(tree.relation),
      index: tree.idxname ?? null,
      method: tree.accessMethod ?? 'btree',
      concurrently: tree.concurrent ?? false,
      unique: tree.unique ?? false,
      ifNotExists: tree.if_not_exists ?? false,
      only: tree.relation?.inh !== true,
    },
  ],
  DropStmt: (tree: Tree.DropStmt) => [
    {
      does: 'drop',
      kind: (tree.removeType ?? '')
        .replace('OBJECT_', '')
        .replace('MATVIEW', 'materialized view')
        .toLowerCase(),
      objects: (tree.objects ?? []).map(objectName),
      concurrently: tree.concurrent ?? false,
      cascade: tree.behavior === 'DROP_CASCADE',
    },
  ],
  ReindexStmt: (tree: Tree.ReindexStmt) => [
    {
      does: 'reindex',
      kind: (tree.kind ?? '').replace('REINDEX_OBJECT_', '').toLowerCase(),
      object: tree.relation ? nameOf(tree.relation) : null,
      concurrently: hasOption(tree.params, 'concurrently'),
    },
  ],
  TruncateStmt: (tree: Tree.TruncateStmt) => [
    { does: 'truncate', tables: ranges(tree.relations), cascade: tree.behavior === 'DROP_CASCADE' },
  ],
  RefreshMatViewStmt: (tree: Tree.RefreshMatViewStmt) => [
    { does: 'refresh', view: nameOf(tree.relation), concurrently: tree.concurrent ?? false },
  ],
  CreateTrigStmt: (tree: Tree.CreateTrigStmt) => [
    { does: 'create trigger', table: nameOf(tree.relation), trigger: tree.trigname ?? '' },
  ],
  CreateFunctionStmt: (tree: Tree.CreateFunctionStmt) => [
    { does: 'create function', function: nameOfParts(tree.funcname) },
  ],
  LockStmt: (tree: Tree.LockStmt) => [
    { does: 'lock', tables: ranges(tree.relations), mode: LOCK_MODES[(tree.mode ?? 8) - 1] ?? '' },
  ],
  VacuumStmt: (tree: Tree.VacuumStmt) => [
    {
      does: 'vacuum',
      full: hasOption(tree.options, 'full'),
      tables: itemsOf<Tree.VacuumRelation>(tree.rels, 'VacuumRelation').map(({ relation }) =>
        nameOf(relation),
      ),
    },
  ],
  ClusterStmt: (tree: Tree.ClusterStmt) => [
    { does: 'cluster', table: tree.relation ? nameOf(tree.relation) : null },
  ],
  AlterDomainStmt: (tree: Tree.AlterDomainStmt) => domainAlteration(tree),
  VariableSetStmt: (tree: Tree.VariableSetStmt) =>
    tree.name === 'session_replication_role'
      ? replicationRole(tree)
      : [...lockTimeout(tree), ...searchPath(tree)],
  DiscardStmt: (tree: Tree.DiscardStmt) =>
    tree.target === undefined || tree.target === 'DISCARD_ALL' ? SETTINGS_RESET : [],
  DoStmt: (tree: Tree.DoStmt) =>
    nodesWithin(tree, 'String').some(({ sval = '' }) => setsLockTimeout(sval)) ? [OWN_TIMEOUT] : [],
  SelectStmt: (tree: Tree.SelectStmt) => setConfig(tree),
  RenameStmt: (tree: Tree.RenameStmt) => [
    {
      does: 'rename',
      table: tree.relation ? nameOf(tree.relation) : null,
      column: tree.renameType === 'OBJECT_COLUMN' ? (tree.subname ?? null) : null,
      object: renamedObject(tree),
      to: tree.newname ?? '',
    },
  ],
  AlterObjectSchemaStmt: (tree: Tree.AlterObjectSchemaStmt) => [
    {
      does: 'rename',
      table: tree.relation ? nameOf(tree.relation) : null,
      column: null,
      object: tree.object ? objectName(tree.object) : null,
      to: tree.newschema ?? '',
    },
  ],
  AlterEnumStmt: (tree: Tree.AlterEnumStmt) =>
    tree.oldVal === undefined || tree.newVal === undefined
      ? []
      : [{ does: 'rename value', type: nameOfParts(tree.typeName), from: tree.oldVal, to: tree.newVal }],
  InsertStmt: (tree: Tree.InsertStmt) => [{ does: 'insert', table: nameOf(tree.relation) }],
  UpdateStmt: (tree: Tree.UpdateStmt) => [{ does: 'update', table: nameOf(tree.relation) }],
  DeleteStmt: (tree: Tree.DeleteStmt) => [{ does: 'delete', table: nameOf(tree.relation) }],
  MergeStmt: (tree: Tree.MergeStmt) => [{ does: 'merge', table: nameOf(tree.relation) }],
} satisfies Readonly<Record<string, (tree: never) => Action[]>>;

function ranges(nodes: Tree.Node[] | undefined): Name[] {
  return itemsOf<Tree.RangeVar>(nodes, 'RangeVar').map(nameOf);
}

/** A list of strings for what has a schema, one string for what has none, a type's name, or a function's. */
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

/** The letters are those of AlterDomainStmt's subtype: C adds a constraint, O sets NOT NULL, V validates. */
function domainAlteration({ subtype, typeName, def }: Tree.AlterDomainStmt): Action[] {
  const domain = nameOfParts(typeName);
  if (String(subtype) === 'O') return [{ does: 'alter domain', domain, adds: 'not null', notValid: false }];
  if (String(subtype) === 'V') return [{ does: 'alter domain', domain, adds: 'validation', notValid: false }];
  if (String(subtype) !== 'C' || !def || !('Constraint' in def)) return [];
  const adds = def.Constraint.contype === 'CONSTR_NOTNULL' ? 'not null' : 'check';
  return [{ does: 'alter domain', domain, adds, notValid: def.Constraint.skip_validation ?? false }];
}

function replicationRole({ args }: Tree.VariableSetStmt): Action[] {
  return constantOf(args?.[0])?.toLowerCase() === 'replica' ? [{ does: 'skip triggers' }] : [];
}

const SETTINGS_RESET: Action[] = [
  { does: 'set lock_timeout', off: true, local: false },
  { does: 'set search_path', schemas: null, local: false },
];

function searchPath({ kind, name, args, is_local: isLocal }: Tree.VariableSetStmt): Action[] {
  if (kind !== 'VAR_RESET_ALL' && name?.toLowerCase() !== 'search_path') return [];
  const schemas = kind === 'VAR_SET_VALUE' ? (args ?? []).map((value) => constantOf(value) ?? '') : null;
  return [{ does: 'set search_path', schemas, local: isLocal ?? false }];
}

function lockTimeout({ kind, name, args, is_local: isLocal }: Tree.VariableSetStmt): Action[] {
  if (kind === 'VAR_RESET_ALL') return [{ does: 'set lock_timeout', off: true, local: false }];
  if (name !== 'lock_timeout') return [];
  const off = kind !== 'VAR_SET_VALUE' || isZero(args?.[0]);
  return [{ does: 'set lock_timeout', off, local: isLocal ?? false }];
}

/** `SELECT set_config('lock_timeout', '5s', false)`, and scripts of pg_dump set an empty search_path so. */
function setConfig({ targetList }: Tree.SelectStmt): Action[] {
  return itemsOf<Tree.ResTarget>(targetList, 'ResTarget').flatMap(({ val }): Action[] => {
    if (!val || !('FuncCall' in val)) return [];
    const { funcname, args = [] } = val.FuncCall;
    if (nameOfParts(funcname).name !== 'set_config') return [];
    const local = constantOf(args[2]) === 'true';
    if (constantOf(args[0]) === 'lock_timeout')
      return [{ does: 'set lock_timeout', off: isZero(args[1]), local }];
    if (constantOf(args[0]) !== 'search_path') return [];
    return [{ does: 'set search_path', schemas: schemasOf(constantOf(args[1]) ?? ''), local }];
  });
}

/** Of code that sets a lock_timeout for what follows in it. */
export const OWN_TIMEOUT: Action = { does: 'set lock_timeout', off: false, local: true };

const SETS_TIMEOUT = /\block_timeout\b(?!'?\s*(?:=|\bto\b|,)\s*'?0\b)/i;

/** Whether a body sets a lock_timeout. */
export function setsLockTimeout(body: string): boolean {
  return SETS_TIMEOUT.test(body);
}

function isZero(value: Tree.Node | undefined): boolean {
  return /^0\s*[a-z]*$/.test(constantOf(value) ?? '');
}
