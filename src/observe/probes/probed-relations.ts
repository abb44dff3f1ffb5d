import {
  IS_QUERIED,
  ofExtension,
  RELATIONS_AND_SCHEMAS,
  USER_SCHEMA,
} from '../../postgres/catalogue/user-objects.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import type { ApplicationInsert } from './application-inserts.ts';

export interface ProbedColumn {
  readonly name: string;
  /** The name of the type, or of a domain's base type: `int8`. */
  readonly type: string;
  /** Characters that varchar(n) and char(n) hold; null: any number, or the type has no length. */
  readonly length: number | null;
  readonly notNull: boolean;
  readonly hasDefault: boolean;
  /** A sequence, gen_random_uuid() or another function makes its values. */
  readonly filled: boolean;
  readonly identity: '' | 'a' | 'd';
  readonly generated: boolean;
  /** A CHECK constraint of the column alone, or of its domain. */
  readonly checked: boolean;
}

export interface ProbedKey {
  readonly name: string;
  readonly columns: readonly string[];
  readonly predicate: string | null;
  readonly immediate: boolean;
}

export interface ProbedReference {
  readonly name: string;
  readonly columns: readonly string[];
  /** Quoted. */
  readonly other: string;
  readonly otherColumns: readonly string[];
  /** Types of the other columns. */
  readonly otherTypes: readonly string[];
  readonly deferrable: boolean;
}

/** A table or view, and what probes need to know of it. Names are unquoted unless said otherwise. */
export interface ProbedRelation {
  readonly oid: string;
  /** The name in the report: `public.orders`. */
  readonly relation: string;
  /** Quoted, for SQL. */
  readonly sqlName: string;
  readonly kind: 'r' | 'p' | 'v' | 'm';
  /** Its pages with those of its partitions and children. */
  readonly pages: number;
  readonly rowSecurity: boolean;
  /** Other relations are read through it. */
  readonly hasChildren: boolean;
  /** Writes that a view takes: by the server itself, a rule or an INSTEAD OF trigger. */
  readonly takes: { readonly updates: boolean; readonly deletes: boolean };
  /** Writes run only code that is known to be harmless. */
  readonly writable: boolean;
  /** Roles of applications with privileges, the one with most of them first. */
  readonly roles: readonly string[];
  readonly columns: readonly ProbedColumn[];
  readonly keys: readonly ProbedKey[];
  readonly references: readonly ProbedReference[];
  readonly referencedBy: readonly ProbedReference[];
  /** Indexes on expressions, with the SQL of their keys. */
  readonly expressions: readonly {
    readonly name: string;
    /** Quoted. */
    readonly sqlName: string;
    readonly keys: readonly string[];
    readonly predicate: string | null;
  }[];
  /** Partial indexes whose predicate calls a function that is not built in. */
  readonly filtered: readonly {
    readonly name: string;
    readonly sqlName: string;
    readonly predicate: string;
  }[];
  /** Other relations whose rows it shows: partitions, children, what a view reads. */
  readonly reads: readonly string[];
  /** Columns that INSERTs of the running application give, the most often called first. */
  readonly inserted: readonly InsertedColumns[];
}

export interface InsertedColumns {
  readonly columns: readonly ProbedColumn[];
  /** null: the calls were not counted. */
  readonly callsPerSecond: number | null;
}

const REFERENCE = (own: string, other: string) => `
  pg_catalog.json_build_object('name', k.conname, 'deferrable', k.condeferrable,
    'columns', (select pg_catalog.json_agg(a.attname order by u.place) from pg_catalog.unnest(k.${own}key) with ordinality u (num, place)
      join pg_catalog.pg_attribute a on a.attrelid = k.${own}relid and a.attnum = u.num),
    'otherColumns', (select pg_catalog.json_agg(a.attname order by u.place) from pg_catalog.unnest(k.${other}key) with ordinality u (num, place)
      join pg_catalog.pg_attribute a on a.attrelid = k.${other}relid and a.attnum = u.num),
    'otherTypes', (select pg_catalog.json_agg(t.typname order by u.place) from pg_catalog.unnest(k.${other}key) with ordinality u (num, place)
      join pg_catalog.pg_attribute a on a.attrelid = k.${other}relid and a.attnum = u.num join pg_catalog.pg_type t on t.oid = a.atttypid),
    'other', (select pg_catalog.format('%I.%I', m.nspname, r.relname) from pg_catalog.pg_class r
      join pg_catalog.pg_namespace m on m.oid = r.relnamespace where r.oid = k.${other}relid))`;

// pg_constraint has no index by the other table.
const REFERENCING = `select d.objid from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_constraint'::pg_catalog.regclass
  and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid = c.oid`;

const ROLES = `
  select o.rolname from pg_catalog.aclexplode(c.relacl) x join pg_catalog.pg_roles o on o.oid = x.grantee
  where x.grantee <> c.relowner and o.rolcanlogin and not o.rolsuper
    and pg_catalog.pg_has_role(current_user, o.oid, 'MEMBER') and pg_catalog.has_schema_privilege(o.oid, n.oid, 'USAGE')
  group by o.rolname order by pg_catalog.count(*) desc, o.rolname limit 3`;

const INDEX_NAMES = `'name', x.indexrelid::pg_catalog.regclass::pg_catalog.text, 'sqlName', pg_catalog.format('%I.%I', n.nspname, i.relname)`;
const INDEXES = 'pg_catalog.pg_index x join pg_catalog.pg_class i on i.oid = x.indexrelid';

const RELATIONS = `
select c.oid::pg_catalog.text as oid, n.nspname as schema, c.relname as name, pg_catalog.format('%I.%I', n.nspname, c.relname) as "sqlName",
  c.relkind as kind, c.relrowsecurity as "rowSecurity",
  (c.relpages + (select coalesce(pg_catalog.sum(i.relpages), 0) from pg_catalog.pg_inherits h
    join pg_catalog.pg_class i on i.oid = h.inhrelid where h.inhparent = c.oid))::pg_catalog.int4 as pages,
  exists (select from pg_catalog.pg_inherits h where h.inhparent = c.oid) as "hasChildren",
  (select pg_catalog.json_build_object('updates', u.events & 4 <> 0, 'deletes', u.events & 16 <> 0)
    from (select case c.relkind when 'v' then pg_catalog.pg_relation_is_updatable(c.oid, true) else 0 end) u (events)) as takes,
  array(${ROLES})::pg_catalog.text[] as roles,
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('name', a.attname, 'type', b.typname,
      'length', case when b.typname in ('varchar', 'bpchar') and greatest(a.atttypmod, t.typtypmod) > 4 then greatest(a.atttypmod, t.typtypmod) - 4 end,
      'notNull', a.attnotnull, 'hasDefault', a.atthasdef and a.attgenerated = '', 'identity', a.attidentity, 'generated', a.attgenerated <> '',
      'filled', a.attidentity <> '' or coalesce(a.attgenerated = '' and pg_catalog.pg_get_expr(d.adbin, d.adrelid) ~ '\\(', false),
      'checked', exists (select from pg_catalog.pg_constraint k where k.contype = 'c'
        and (k.conrelid = c.oid and k.conkey = array[a.attnum] or k.contypid = t.oid and t.typtype = 'd'))) order by a.attnum), '[]')
    from pg_catalog.pg_attribute a join pg_catalog.pg_type t on t.oid = a.atttypid
    join pg_catalog.pg_type b on b.oid = case when t.typtype = 'd' then t.typbasetype else t.oid end
    left join pg_catalog.pg_attrdef d on d.adrelid = c.oid and d.adnum = a.attnum
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped) as columns,
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object('name', x.indexrelid::pg_catalog.regclass::pg_catalog.text,
      'predicate', pg_catalog.pg_get_expr(x.indpred, x.indrelid), 'immediate', x.indimmediate,
      'columns', (select pg_catalog.json_agg(a.attname order by u.place)
        from pg_catalog.unnest(x.indkey::pg_catalog.int2[]) with ordinality u (num, place)
        join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = u.num where u.place <= x.indnkeyatts)) order by x.indexrelid), '[]')
    from pg_catalog.pg_index x where x.indrelid = c.oid and x.indisunique and x.indisvalid and x.indexprs is null) as keys,
  (select coalesce(pg_catalog.json_agg(${REFERENCE('con', 'conf')}), '[]')
    from pg_catalog.pg_constraint k where k.conrelid = c.oid and k.contype = 'f') as references,
  (select coalesce(pg_catalog.json_agg(${REFERENCE('conf', 'con')}), '[]')
    from pg_catalog.pg_constraint k where k.oid in (${REFERENCING}) and k.confrelid = c.oid and k.contype = 'f' and k.conparentid = 0) as "referencedBy",
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(${INDEX_NAMES}, 'predicate', pg_catalog.pg_get_expr(x.indpred, x.indrelid),
      'keys', (select pg_catalog.json_agg(pg_catalog.pg_get_indexdef(x.indexrelid, k.place, true) order by k.place)
        from pg_catalog.generate_series(1, x.indnkeyatts) k (place)))), '[]')
    from ${INDEXES} join pg_catalog.pg_am m on m.oid = i.relam
    where x.indrelid = c.oid and x.indisvalid and x.indexprs is not null and m.amname in ('btree', 'hash')) as expressions,
  (select coalesce(pg_catalog.json_agg(pg_catalog.json_build_object(${INDEX_NAMES}, 'predicate', pg_catalog.pg_get_expr(x.indpred, x.indrelid))), '[]')
    from ${INDEXES} where x.indrelid = c.oid and x.indisvalid and x.indpred is not null
      and exists (select from pg_catalog.pg_depend d where d.classid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.objid = x.indexrelid
        and d.refclassid = 'pg_catalog.pg_proc'::pg_catalog.regclass)) as filtered,
  array(select pg_catalog.format('%I.%I', m.nspname, r.relname) from pg_catalog.pg_class r join pg_catalog.pg_namespace m on m.oid = r.relnamespace
    where r.oid in (select h.inhrelid from pg_catalog.pg_inherits h where h.inhparent = c.oid
      union select p.relid from pg_catalog.pg_partition_tree(c.oid) p where c.relkind = 'p'
      union select d.refobjid from pg_catalog.pg_rewrite w
        join pg_catalog.pg_depend d on d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass and d.objid = w.oid
        where w.ev_class = c.oid and d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid <> c.oid)) as reads
from ${RELATIONS_AND_SCHEMAS}
where ${IS_QUERIED} and c.relkind <> 'f' and not c.relispartition and c.relpersistence <> 't' and ${USER_SCHEMA}
  and not ${ofExtension('pg_class', 'c.oid')}
order by c.relpages desc, c.oid
limit 500`;

/** Names the code behind reads (`use`) or writes of a relation if it is not known to be harmless. */
export type Doubt = (relation: string, way: 'use' | 'write') => string | undefined;

/**
 * Reads the tables and views of users, the largest first. Partitions are reached through their table. A relation is left out if
 * reading it may act outside of the clone.
 * @param inserts those of the running application.
 */
export async function readProbedRelations(
  session: Session,
  doubt: Doubt,
  inserts: readonly ApplicationInsert[] = [],
): Promise<ProbedRelation[]> {
  const rows = await session.query<Row>(RELATIONS);
  return rows.flatMap(({ schema, name, ...row }) => {
    const relation = displayName(schema, name);
    const reached = [relation, ...row.reads];
    if (reached.some((each) => doubt(each, 'use') !== undefined)) return [];
    // Deletes may cascade, and so may updates.
    const written = [...reached, ...row.referencedBy.map(({ other }) => other)];
    const writable = written.every((each) => doubt(each, 'write') === undefined);
    return [{ ...row, relation, writable, inserted: insertedInto({ schema, name, ...row }, inserts) }];
  });
}

type Row = Omit<ProbedRelation, 'writable' | 'inserted'> & { readonly schema: string; readonly name: string };

/** Each is a probe: the most frequent INSERTs of a table tell enough. */
const MOST_INSERTS = 3;

function insertedInto(
  { schema, name, columns }: Row,
  inserts: readonly ApplicationInsert[],
): InsertedColumns[] {
  return inserts
    .filter((each) => each.table === name && (each.schema ?? schema) === schema)
    .flatMap(({ columns: named, count, callsPerSecond }) => {
      const given =
        named === null ? columns.slice(0, count) : columns.filter((each) => named.includes(each.name));
      return given.length === count ? [{ columns: given, callsPerSecond }] : [];
    })
    .slice(0, MOST_INSERTS);
}
