import { identifier } from '../../postgres/sql/quote.ts';
import type { CatalogueTable, OnlineCatalogue } from './online-catalogue.ts';

/** A statement for the clone, and the one that undoes it. */
export interface Reversible {
  readonly forward: string;
  readonly back: string;
}

/** A name in a namespace, now and as it should be. */
interface Renamed {
  readonly oid: number;
  readonly space: string;
  readonly now: string;
  readonly wanted: string;
}

/**
 * Gives schemas, tables and columns of the clone the names that they have in the target, since logical replication finds them by
 * name. Other objects with these names are moved out of the way.
 * @param followed OIDs of tables that both databases have, partitioned ones among them.
 */
export function formerNames(
  target: OnlineCatalogue,
  clone: OnlineCatalogue,
  followed: ReadonlySet<number>,
): Reversible[] {
  const wanted = target.tables.filter(({ oid }) => followed.has(oid));
  const schemas = schemaNames(target, clone, new Set(wanted.map(({ schemaOid }) => schemaOid)));
  return [
    ...schemas.steps,
    ...relationNames(wanted, clone, schemas.named),
    ...columnNames(target, clone, followed),
  ];
}

function schemaNames(target: OnlineCatalogue, clone: OnlineCatalogue, used: ReadonlySet<number>) {
  const steps: Reversible[] = [];
  const renamed: Renamed[] = [];
  const missing: string[] = [];
  for (const { oid, name } of target.schemas.filter((schema) => used.has(schema.oid))) {
    const there = clone.schemas.find((schema) => schema.oid === oid);
    if (there && there.name !== name) renamed.push({ oid, space: '', now: there.name, wanted: name });
    if (!there && !clone.schemas.some((schema) => schema.name === name)) missing.push(name);
  }
  const present = clone.schemas.map((schema) => ({ ...schema, space: '' }));
  const rename = (_: string, from: string, to: string) =>
    `ALTER SCHEMA ${identifier(from)} RENAME TO ${identifier(to)}`;
  const moved = exchange(renamed, present, rename);
  steps.push(...moved.steps);
  for (const name of missing)
    steps.push({ forward: `CREATE SCHEMA ${identifier(name)}`, back: `DROP SCHEMA ${identifier(name)}` });
  return { steps, named: (oid: number) => moved.names.get(oid) };
}

function relationNames(
  wanted: readonly CatalogueTable[],
  clone: OnlineCatalogue,
  schemaNamed: (oid: number) => string | undefined,
): Reversible[] {
  const inSchema = new Map(clone.relations.map((relation) => [relation.oid, relation]));
  const originalName = new Map(clone.schemas.map(({ oid, name }) => [oid, name]));
  const present = clone.relations.map(({ oid, schemaOid, name }) => ({
    oid,
    name,
    space: schemaNamed(schemaOid) ?? originalName.get(schemaOid) ?? '',
  }));
  const rename = (space: string, from: string, to: string) =>
    `ALTER TABLE ${identifier(space)}.${identifier(from)} RENAME TO ${identifier(to)}`;
  const changed = wanted.filter((table) => {
    const now = present.find(({ oid }) => oid === table.oid);
    return now && inSchema.has(table.oid) && (now.name !== table.name || now.space !== table.schema);
  });
  const steps: Reversible[] = [];
  const aside = new Map<number, string>();
  const setAside = (oid: number, space: string, name: string) => {
    const other = temporaryName(oid);
    aside.set(oid, other);
    steps.push({ forward: rename(space, name, other), back: rename(space, other, name) });
  };
  const ids = new Set(changed.map(({ oid }) => oid));
  for (const { oid, space, name } of present)
    if (ids.has(oid) || changed.some((table) => table.name === name && table.schema === space))
      setAside(oid, space, name);
  for (const table of changed) {
    const now = present.find(({ oid }) => oid === table.oid);
    const name = aside.get(table.oid) ?? table.name;
    if (now && now.space !== table.schema) steps.push(setSchema(name, now.space, table.schema));
    steps.push({
      forward: rename(table.schema, name, table.name),
      back: rename(table.schema, table.name, name),
    });
  }
  return steps;
}

function setSchema(table: string, from: string, to: string): Reversible {
  const move = (one: string, other: string) =>
    `ALTER TABLE ${identifier(one)}.${identifier(table)} SET SCHEMA ${identifier(other)}`;
  return { forward: move(from, to), back: move(to, from) };
}

function columnNames(
  target: OnlineCatalogue,
  clone: OnlineCatalogue,
  followed: ReadonlySet<number>,
): Reversible[] {
  const steps: Reversible[] = [];
  for (const table of target.tables) {
    const there = clone.tables.find(({ oid }) => oid === table.oid);
    if (!there || !followed.has(table.oid)) continue;
    const space = `${identifier(table.schema)}.${identifier(table.name)}`;
    // Partitioned tables rename the columns of their partitions.
    const local = there.columns.filter(({ inherited }) => !inherited);
    const renamed = local.flatMap(({ attnum: oid, name: now }) => {
      const wanted = table.columns.find(({ attnum }) => attnum === oid)?.name;
      return wanted === undefined || wanted === now ? [] : [{ oid, space, now, wanted }];
    });
    const rename = (of: string, from: string, to: string) =>
      `ALTER TABLE ${of} RENAME COLUMN ${identifier(from)} TO ${identifier(to)}`;
    const present = local.map(({ attnum: oid, name }) => ({ oid, name, space }));
    steps.push(...exchange(renamed, present, rename).steps);
  }
  return steps;
}

/** Renames in two steps, so that names can be exchanged: all to temporary names, then to those that are wanted. */
function exchange(
  renamed: readonly Renamed[],
  present: readonly { readonly oid: number; readonly name: string; readonly space: string }[],
  rename: (space: string, from: string, to: string) => string,
): { steps: Reversible[]; names: ReadonlyMap<number, string> } {
  const names = new Map<number, string>();
  const steps: Reversible[] = [];
  const step = (oid: number, space: string, from: string, to: string) => {
    names.set(oid, to);
    steps.push({ forward: rename(space, from, to), back: rename(space, to, from) });
  };
  const ids = new Set(renamed.map(({ oid }) => oid));
  for (const { oid, name, space } of present)
    if (ids.has(oid) || renamed.some(({ wanted }) => wanted === name))
      step(oid, space, name, temporaryName(oid));
  for (const { oid, space, wanted } of renamed) step(oid, space, temporaryName(oid), wanted);
  return { steps, names };
}

function temporaryName(oid: number): string {
  return `safemigrate_${oid}`;
}
