import type { Session } from '../postgres/connection/session.ts';
import { type Catalogue, cataloguesOf, leavingOut } from './catalogues.ts';
import type { CatalogueIdentity } from './identity.ts';
import { path } from './object-names.ts';

/**
 * By what a relation is known to be unchanged: the transactions that wrote the rows of the catalogues that are about it,
 * folded. As a CatalogueDigest, but relation by relation, and good for one database only.
 */
export interface Marks {
  /** By OID, of all that are neither temporary nor TOAST. */
  readonly relations: ReadonlyMap<number, string>;
  /** Of everything that relations refer to by name. */
  readonly others: string;
  /** Names of all roles, by OID. */
  readonly roles: ReadonlyMap<number, string>;
  /** Whatever was written later has this transaction number (32 bits of it) or one that came after. */
  readonly horizon: string;
  /** Of the server, as server_version_num: it says which catalogues there are. */
  readonly version: number;
}

const mark = (row: string, seed: number) => `pg_catalog.hash_record_extended(row(${row}), ${seed})`;

/** The catalogues' names are not hashed with their rows: instead of them each has a seed of its own. */
function foldOf({ name, row, where, relation, mayGrow }: Catalogue, seed: number, since?: Marks) {
  const conditions = [
    where,
    // An array is called by what it is an array of.
    name === 'pg_type' && `typsubscript <> 'pg_catalog.array_subscript_handler'::pg_catalog.regproc`,
    mayGrow && since && `pg_catalog.age(xmin) > pg_catalog.age('${since.horizon}'::pg_catalog.xid)`,
  ].filter(Boolean);
  return `select ${relation}, ${mark(`${row}, xmin`, seed)} from pg_catalog.${name}${
    conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`
  }`;
}

const MEMBERS = `select 0, ${mark('classid, objid, refobjid, xmin', -1)} from pg_catalog.pg_depend
   where refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass`;

const VERSION = "select pg_catalog.current_setting('server_version_num')::int as version";
const HORIZON = 'pg_catalog.pg_snapshot_xmax(pg_catalog.pg_current_snapshot())::pg_catalog.text';
const TOAST = `'pg_toast'::pg_catalog.regnamespace`;
const OF_XID = 2n ** 32n;

const ROLES = 'select oid, rolname as name from pg_catalog.pg_roles';

/** To be called inside a transaction with one snapshot. */
export async function readMarks(session: Session): Promise<Marks> {
  const [server] = await session.query<{ version: number }>(VERSION);
  const version = server?.version ?? 0;
  return marksFrom(await session.queryAll(marksQuestions(version)), version);
}

/**
 * To be asked inside a transaction with one snapshot, and given to marksFrom().
 * @param since growth from there on is left out, where it matters to nobody.
 */
export function marksQuestions(version: number, since?: Marks): string[] {
  const catalogues = cataloguesOf(version).filter(({ relation }) => relation !== null);
  const folds = catalogues.map((catalogue, seed) => foldOf(catalogue, seed, since));
  return [
    `with ${leavingOut(`relpersistence = 't' or relnamespace = ${TOAST}`)}, part(relation, mark) as (${[...folds, MEMBERS].join('\nunion all\n')}),
      folded as (select relation, pg_catalog.bit_xor(mark) as mark from part where relation is not null group by relation)
     select pg_catalog.string_agg(pg_catalog.concat(relation, ':', mark), ' ') as marks, ${HORIZON} as horizon from folded`,
    ROLES,
  ];
}

/** @param answers the rows of each of marksQuestions(). */
export function marksFrom(answers: readonly object[][], version: number): Marks {
  const [[found] = [], roles = []] = answers as [
    { marks: string; horizon: string }[],
    { oid: number; name: string }[],
  ];
  const relations = new Map<number, string>();
  for (const each of found?.marks.split(' ') ?? []) {
    const at = each.indexOf(':');
    relations.set(Number(each.slice(0, at)), each.slice(at + 1));
  }
  const others = relations.get(0) ?? '';
  relations.delete(0);
  return {
    relations,
    others,
    roles: new Map(roles.map(({ oid, name }) => [oid, name])),
    horizon: String(BigInt(found?.horizon ?? 0) % OF_XID),
    version,
  };
}

/** Relations of which anything may be told differently now. */
export interface Touched {
  /** OIDs of those that there are now, with their indexes. */
  readonly now: readonly number[];
  /** Keys of the identity, and names with their schemas, of those that there were. */
  readonly before: { readonly keys: ReadonlySet<string>; readonly names: readonly (readonly string[])[] };
}

const CLASS = `'pg_catalog.pg_class'::pg_catalog.regclass`;
const isA = (catalogue: string) => `r.classid = 'pg_catalog.${catalogue}'::pg_catalog.regclass`;
const ownerOf = (catalogue: string, relation: string) =>
  `select x.${relation} from pg_catalog.${catalogue} x where ${isA(catalogue)} and x.oid = r.objid`;

/**
 * A changed relation changes what is told of whatever refers to it by name: those objects, and the relations that they are parts of.
 * What refers to these is not touched, since they have kept their names. Beside that a column is told with its sequence.
 */
const AROUND = `with recursive reached(classid, objid) as (
    select ${CLASS}::pg_catalog.oid, t.oid from pg_catalog.unnest($1::pg_catalog.oid[]) t(oid)
    union
    select n.classid, n.objid from reached r cross join lateral (
      select d.classid, d.objid from pg_catalog.pg_depend d where d.refclassid = r.classid and d.refobjid = r.objid
      union all
      select 'pg_catalog.pg_type'::pg_catalog.regclass, named.oid
        from pg_catalog.pg_class c join pg_catalog.pg_type t on t.oid = c.reltype
        cross join lateral (values (t.oid), (t.typarray)) named(oid) where ${isA('pg_class')} and c.oid = r.objid
    ) n),
  owner(oid) as (
    select n.oid from reached r cross join lateral (
      select r.objid where ${isA('pg_class')}
      union all select x.indrelid from pg_catalog.pg_index x where ${isA('pg_class')} and x.indexrelid = r.objid
      union all select d.refobjid from pg_catalog.pg_depend d where ${isA('pg_class')} and d.classid = r.classid and d.objid = r.objid
        and d.refclassid = r.classid and d.refobjsubid > 0
      union all ${ownerOf('pg_constraint', 'conrelid')}
      union all ${ownerOf('pg_attrdef', 'adrelid')}
      union all ${ownerOf('pg_rewrite', 'ev_class')}
      union all ${ownerOf('pg_trigger', 'tgrelid')}
      union all ${ownerOf('pg_policy', 'polrelid')}
    ) n(oid)),
  whole(oid) as (select oid from owner union select x.indexrelid from pg_catalog.pg_index x join owner on owner.oid = x.indrelid)
  select c.oid from pg_catalog.pg_class c join whole on whole.oid = c.oid
  where c.relkind <> 't' and c.relnamespace <> ${TOAST} and c.relpersistence <> 't'`;

/** Beyond this part of all relations it takes less time to read everything. */
const MOST = 0.25;

/**
 * Compares marks with those of before. undefined where all relations may be told differently: something was changed that they refer to, or it is
 * not known what was.
 */
export async function touchedSince(
  session: Session,
  then: Marks,
  identity: CatalogueIdentity,
  now: Marks,
): Promise<Touched | undefined> {
  if (then.others !== now.others || isRenamed(then.roles, now.roles)) return undefined;
  const changed = [...now.relations]
    .filter(([oid, at]) => then.relations.get(oid) !== at)
    .map(([oid]) => oid);
  if (changed.length > then.relations.size * MOST) return undefined;
  const rows = await session.query<{ oid: number }>(AROUND, [changed]);
  const around = rows.map(({ oid }) => oid);
  const gone = [...then.relations.keys()].filter((oid) => !now.relations.has(oid));
  const keys = new Set<string>();
  const names: string[][] = [];
  const isChanged = new Set([...changed, ...gone]);
  for (const oid of [...around, ...gone]) {
    if (!then.relations.has(oid)) continue;
    const key = `pg_class:${oid}`;
    const known = identity.get(key);
    const name = known && path(known, identity);
    // What is not the user's own is told all the same, or it is a type, which others are named by.
    if (!known || name?.length !== 2 || (known.kind === 'type' && isChanged.has(oid))) return undefined;
    keys.add(key);
    names.push(name);
  }
  return { now: around, before: { keys, names } };
}

/** A role that objects refer to cannot go, and a new one is referred to by what is changed only. */
function isRenamed(then: Marks['roles'], now: Marks['roles']): boolean {
  return [...now].some(([oid, name]) => (then.get(oid) ?? name) !== name);
}
