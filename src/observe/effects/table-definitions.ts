import { USER_SCHEMA } from '../../postgres/catalogue/user-objects.ts';
import type { DefinitionParts } from './definition-parts.ts';

/** Bound `text` of a range partition as a number, by type `a.atttypid` of the key; NULL: no bound, or the type has no distances. */
const asNumber = (text: string) => `case
  when ${text} in ('MINVALUE', 'MAXVALUE') then null
  when a.atttypid in ('pg_catalog.int2'::pg_catalog.regtype, 'pg_catalog.int4'::pg_catalog.regtype, 'pg_catalog.int8'::pg_catalog.regtype, 'pg_catalog.numeric'::pg_catalog.regtype)
    then pg_catalog.btrim(${text}, '''')::pg_catalog.numeric
  when a.atttypid in ('pg_catalog.date'::pg_catalog.regtype, 'pg_catalog.timestamp'::pg_catalog.regtype, 'pg_catalog.timestamptz'::pg_catalog.regtype)
    then extract(epoch from pg_catalog.btrim(${text}, '''')::pg_catalog.timestamptz)::pg_catalog.numeric end`;

/** Partitions of ranges of partitioned table `c` by column `a`, with the distance to the next one. */
const RANGES = `
  select r.*, coalesce(r.next > r.high, false) as apart, coalesce(r.next > r.high and r.next - r.high < least(r.high - r.low, r.next_high - r.next), false) as gap from (
    select b.*, pg_catalog.lead(b.low) over w as next, pg_catalog.lead(b.high) over w as next_high from (
      select pg_catalog.format('%I.%I', m.nspname, p.relname) as partition, k.bounds[1] as lower, k.bounds[2] as upper,
        ${asNumber('k.bounds[1]')} as low, ${asNumber('k.bounds[2]')} as high
      from pg_catalog.pg_inherits i join pg_catalog.pg_class p on p.oid = i.inhrelid join pg_catalog.pg_namespace m on m.oid = p.relnamespace
      cross join lateral pg_catalog.regexp_match(pg_catalog.pg_get_expr(p.relpartbound, p.oid), '^FOR VALUES FROM \\((.*)\\) TO \\((.*)\\)$') as k (bounds)
      where i.inhparent = c.oid and k.bounds is not null) b
    window w as (order by b.low nulls first)) r`;

/** Columns with room for more numbers than the sequence of their default gives, which ends with an integer type. Children have the default of their parent. */
const SHORT_SEQUENCES = `
select 'short sequence', n.nspname, c.relname, a.attname, pg_catalog.jsonb_build_object('schema', m.nspname, 'sequence', s.relname,
  'column', pg_catalog.format_type(a.atttypid, null), 'type', pg_catalog.format_type(q.seqtypid, null), 'end', q.seqmax,
  'last', case when pg_catalog.has_sequence_privilege(s.oid, 'SELECT') then pg_catalog.pg_sequence_last_value(s.oid) end)::pg_catalog.text
from pg_catalog.pg_sequence q join pg_catalog.pg_class s on s.oid = q.seqrelid join pg_catalog.pg_namespace m on m.oid = s.relnamespace
join pg_catalog.pg_depend d on d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass and d.refobjid = s.oid
  and d.classid = 'pg_catalog.pg_attrdef'::pg_catalog.regclass
join pg_catalog.pg_attrdef f on f.oid = d.objid
join pg_catalog.pg_attribute a on a.attrelid = f.adrelid and a.attnum = f.adnum
join pg_catalog.pg_class c on c.oid = f.adrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where q.seqincrement > 0 and not q.seqcycle and a.attinhcount = 0 and a.attgenerated = '' and ${USER_SCHEMA}
  and (q.seqmax in (32767, 2147483647) and a.atttypid in ('pg_catalog.int8'::pg_catalog.regtype, 'pg_catalog.numeric'::pg_catalog.regtype)
    or q.seqmax = 32767 and a.atttypid = 'pg_catalog.int4'::pg_catalog.regtype)`;

/** Triggers, and those of one event in the order in which they fire. */
const TRIGGERS = `
select 'trigger', n.nspname, c.relname, t.tgname,
  pg_catalog.substring(pg_catalog.pg_get_triggerdef(t.oid), '(?:BEFORE|AFTER|INSTEAD OF) (?:INSERT|DELETE|UPDATE|TRUNCATE).*')
from pg_catalog.pg_trigger t join pg_catalog.pg_class c on c.oid = t.tgrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where not t.tgisinternal and ${USER_SCHEMA}
union all
select 'trigger order', n.nspname, c.relname, w.time || e.word || w.level, pg_catalog.string_agg(t.tgname, ', ' order by t.tgname)
from pg_catalog.pg_trigger t join pg_catalog.pg_class c on c.oid = t.tgrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join (values (4, 'INSERT'), (8, 'DELETE'), (16, 'UPDATE')) e (bit, word) on t.tgtype & e.bit <> 0
cross join lateral (select case when t.tgtype & 2 <> 0 then 'BEFORE ' when t.tgtype & 64 <> 0 then 'INSTEAD OF ' else 'AFTER ' end,
  case when t.tgtype & 1 = 0 then ' FOR EACH STATEMENT' else '' end) w (time, level)
where not t.tgisinternal and t.tgenabled <> 'D' and ${USER_SCHEMA}
group by n.nspname, c.relname, w.time, e.word, w.level having count(*) > 1`;

/** Tables by their triggers, partitions, sequences, and constraints that belong together. */
export const TABLE_DEFINITIONS: DefinitionParts = {
  partitionedTables: `
select 'ranges', n.nspname, c.relname, '', pg_catalog.jsonb_build_object('rest', t.partdefid <> 0, 'ranges', (
  select pg_catalog.jsonb_agg(pg_catalog.jsonb_build_object('partition', r.partition, 'from', r.lower, 'to', r.upper, 'apart', r.apart, 'gap', r.gap)
    order by r.low nulls first) from (${RANGES}) r))::pg_catalog.text
from pg_catalog.pg_partitioned_table t join pg_catalog.pg_class c on c.oid = t.partrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
join pg_catalog.pg_attribute a on a.attrelid = c.oid and a.attnum = t.partattrs[0]
where t.partstrat = 'r' and t.partnatts = 1 and ${USER_SCHEMA}
  and exists (select from pg_catalog.pg_inherits i where i.inhparent = c.oid and i.inhrelid <> t.partdefid)`,
  always: `
select 'alike', n.nspname, c.relname, k.contype::pg_catalog.text || ' ' || k.columns,
  pg_catalog.jsonb_object_agg(k.conname, pg_catalog.regexp_replace(pg_catalog.pg_get_constraintdef(k.oid), ' NOT VALID$', ''))::pg_catalog.text
from (select k.oid, k.conrelid, k.contype, k.conname,
    (select pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' order by a.attnum)
      from pg_catalog.pg_attribute a where a.attrelid = k.conrelid and a.attnum = any (k.conkey)) as columns
  from pg_catalog.pg_constraint k where k.contype in ('c', 'u', 'f') and k.conparentid = 0) k
join pg_catalog.pg_class c on c.oid = k.conrelid join pg_catalog.pg_namespace n on n.oid = c.relnamespace
where k.columns is not null and not c.relispartition and ${USER_SCHEMA}
group by 2, 3, 4`,
  defaults: SHORT_SEQUENCES,
  triggers: TRIGGERS,
};
