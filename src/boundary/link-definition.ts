import type * as Tree from 'libpg-query';
import { actionsOf, fieldsIf, keptInOf, viewOf } from '../postgres/sql/classify-statement.ts';
import { itemsOf, type Node, nameOf, nameOfParts, nodesWithin } from '../postgres/sql/tree.ts';
import { partsOf, type StatementParts } from './statement-parts.ts';
import { ANYTHING, DEFINITIONS, TABLES, TRIGGERS, type UnknownNames } from './unknown-names.ts';

/** Links the names of what a statement defines to all that it names: if one of these is not known later on, the other is not either. */
export function linkDefinition(node: Node, { words, writes }: StatementParts, names: UnknownNames): void {
  for (const element of fieldsIf(node, 'CreateSchemaStmt')?.schemaElts ?? [])
    linkDefinition(element as Node, partsOf(element), names);
  for (const action of actionsOf(node))
    if (action.does === 'create trigger')
      for (const word of words) {
        names.link(word, 'use', TRIGGERS);
        // The name of the table itself is one of the words.
        if (word !== action.table.name) names.link(word, 'use', action.table.name, 'write');
      }
  for (const name of definedBy(node)) for (const word of words) names.link(word, 'use', name);
  const view = viewOf(node);
  if (view !== undefined)
    for (const word of words) {
      if (word.startsWith('pg_') && word !== 'pg_catalog')
        names.add(view, 'write', `a change of ${word} by ${view}`);
      names.link(word, 'write', view);
    }
  for (const relation of writes)
    for (const name of definedBy(node)) names.link(relation, 'write', name, 'use');
  linkTables(node, names);
}

/** Links a table to those whose changes also change its rows: its parents, and the tables that its foreign keys reference. */
function linkTables(node: Node, names: UnknownNames): void {
  const created = fieldsIf(node, 'CreateStmt');
  const altered = fieldsIf(node, 'AlterTableStmt');
  const relation = created?.relation ?? altered?.relation;
  if (!relation) return;
  const { name } = nameOf(relation);
  const link = (from: string, to: string) => {
    names.link(from, 'write', to);
    names.link(from, 'use', to);
  };
  for (const parent of itemsOf<Tree.RangeVar>(created?.inhRelations, 'RangeVar'))
    link(name, nameOf(parent).name);
  for (const { pktable } of nodesWithin(node, 'Constraint'))
    if (pktable) names.link(name, 'write', nameOf(pktable).name);
  for (const { subtype, def } of itemsOf<Tree.AlterTableCmd>(altered?.cmds, 'AlterTableCmd')) {
    if (def && 'PartitionCmd' in def && def.PartitionCmd.name) link(nameOf(def.PartitionCmd.name).name, name);
    if (subtype === 'AT_AddInherit' && def && 'RangeVar' in def) link(name, nameOf(def.RangeVar).name);
  }
}

/** A type, and the type of its arrays. */
const withArray = (name: string) => [name, `_${name}`];

/** Returns the names by which the things are used that a statement defines. */
function definedBy(node: Node): readonly string[] {
  const relation = keptInOf(node);
  if (relation !== undefined) return [relation, TABLES];
  const prepared = fieldsIf(node, 'PrepareStmt')?.name ?? fieldsIf(node, 'DeclareCursorStmt')?.portalname;
  if (prepared !== undefined) return [prepared];
  const type =
    fieldsIf(node, 'CreateDomainStmt')?.domainname ??
    fieldsIf(node, 'AlterDomainStmt')?.typeName ??
    fieldsIf(node, 'CreateRangeStmt')?.typeName ??
    fieldsIf(node, 'DefineStmt')?.defnames;
  if (type) return withArray(nameOfParts(type).name);
  const composite = fieldsIf(node, 'CompositeTypeStmt')?.typevar;
  if (composite) return withArray(nameOf(composite).name);
  const event = fieldsIf(node, 'CreateEventTrigStmt')?.eventname;
  if (event !== undefined) return [event === 'login' ? ANYTHING : DEFINITIONS];
  const isForTypes =
    fieldsIf(node, 'CreateCastStmt') ??
    fieldsIf(node, 'CreateOpClassStmt') ??
    fieldsIf(node, 'AlterOpFamilyStmt');
  return isForTypes ? [ANYTHING] : [];
}

/** Parts of another object, or schemas, which no name leads to. */
const PARTS =
  /^OBJECT_(?:SCHEMA|COLUMN|ATTRIBUTE|TABCONSTRAINT|DOMCONSTRAINT|TRIGGER|RULE|POLICY|ROLE|DATABASE|TABLESPACE)$/;

/** Links an object's new name to the former one. */
export function linkNewName(
  { renameType, newname = '' }: Tree.RenameStmt,
  { words }: StatementParts,
  names: UnknownNames,
): void {
  if (PARTS.test(renameType ?? '')) return;
  for (const word of words) for (const way of ['use', 'write'] as const) names.link(word, way, newname);
}
