import { identifier } from '../../postgres/sql/quote.ts';
import { OFFLINE, qualified, shown } from './follow-table.ts';
import {
  byOid,
  type CatalogueForeignKey,
  type CatalogueTable,
  type OnlineCatalogue,
} from './online-catalogue.ts';
import type { NewForeignKey, OnlineObjection } from './online-plan.ts';

/** Finds the foreign keys that only the follower has. */
export function planForeignKeys(
  { target, clone }: { readonly target: OnlineCatalogue; readonly clone: OnlineCatalogue },
  followed: ReadonlySet<number>,
) {
  const found: NewForeignKey[] = [];
  const objections: OnlineObjection[] = [];
  const changing = (oid: number) => followed.has(oid) || byOid(clone.tables, oid)?.kind === 'p';
  for (const key of clone.foreignKeys) {
    if (byOid(target.foreignKeys, key.oid) || !(changing(key.table) || changing(key.parent))) continue;
    const [table, parent] = [key.table, key.parent].map((oid) => byOid(clone.tables, oid));
    if (!table || !parent) continue;
    const name = `${key.name} of ${shown(table)}`;
    if (key.temporal)
      objections.push({
        kind: 'foreign key',
        subject: name,
        reason: 'it is new and has a PERIOD, and no query finds the rows that violate it',
        remedy: OFFLINE,
      });
    else found.push({ name, orphans: orphansOfNew(key, table, parent, target) });
  }
  return { found, objections };
}

function orphansOfNew(
  { columns, keys }: CatalogueForeignKey,
  table: CatalogueTable,
  parent: CatalogueTable,
  target: OnlineCatalogue,
): string {
  const nameIn = (of: CatalogueTable, attnum: number) => {
    const former = byOid(target.tables, of.oid)?.columns.find((column) => column.attnum === attnum);
    return identifier((former ?? of.columns.find((column) => column.attnum === attnum))?.name ?? '');
  };
  const nameOf = (of: CatalogueTable) => qualified(byOid(target.tables, of.oid) ?? of);
  const child = columns.map((attnum) => `c.${nameIn(table, attnum)}`);
  const present = child.map((column) => `${column} IS NOT NULL`).join(' AND ');
  const equal = keys.map((attnum, at) => `p.${nameIn(parent, attnum)} = ${child[at]}`).join(' AND ');
  return `SELECT count(*)::float8 AS orphans FROM ${table.kind === 'r' ? 'ONLY ' : ''}${nameOf(table)} c
 WHERE ${present} AND NOT EXISTS (SELECT FROM ${nameOf(parent)} p WHERE ${equal})`;
}
