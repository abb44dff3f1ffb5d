import { DDL } from '../postgres/proxy/ddl-corpus.ts';

/** Adds to DDL_SETUP what the statements below need. */
export const LOCK_SETUP = `
create table parted_2 partition of parted for values from ('2023-01-01') to ('2024-01-01');
create index parted_at on parted (at);
create index t_expr on t (lower(v));
create table wide (id int primary key, body text);
insert into wide values (1, repeat('x', 10));
create table "Odd name" (id int primary key, "Select" text);
create table apart.t (id int primary key, n int);
create index t_n on apart.t (n);
create procedure steps() language plpgsql as $$ begin
  update t set n = n + 1; commit; update apart.x set i = 2; end $$;
create procedure whole() language plpgsql as $$ begin update t set n = n + 1; delete from ref; end $$;
create function reads() returns bigint language sql as 'select count(*) from apart.t';
`;

/** Statements of a transaction: what they hold can be read while it is open. */
export const HOLDING: readonly string[] = [
  ...DDL,
  'lock table t',
  'lock table t, other in share mode',
  'lock table only parent in share row exclusive mode',
  'lock table parted in exclusive mode',
  'lock table t in row share mode nowait',
  'select count(*) from parted',
  'select reads()',
  'select * from apart.t join t using (id)',
  'select * from t for share',
  'select * from kept',
  'with gone as (delete from ref returning *) select * from gone',
  "insert into parted values (1, '2024-05-05')",
  'insert into other select id, v from t',
  "update parted set id = 2 where at = '2024-05-05'",
  'delete from parent',
  'merge into ref using t on ref.id = t.id when not matched then insert values (t.id, t.id)',
  "copy other from '/dev/null'",
  'copy (select * from apart.t) to stdout',
  'explain select * from t',
  'explain analyze update t set n = 2',
  'call whole()',
  'do $$ begin insert into ref values (5, null); end $$',
  "do $$ begin execute 'alter table apart.x add column more int'; end $$",
  'alter table apart.t add column more int',
  'create index on apart.t (n)',
  'drop index apart.t_n',
  'drop table apart.t',
  'alter table "Odd name" add column more int',
  'drop table "Odd name"',
  'truncate wide',
  'alter table wide alter column id type bigint',
  'drop table wide',
  'alter table wide rename to wider',
  'analyze parted',
  'reindex index t_expr',
  'refresh materialized view kept',
];

/**
 * Statements that commit within themselves, or may not run in a transaction: what they hold is gone when they have ended, and
 * may be held for less than a millisecond.
 */
export const COMMITTING: readonly string[] = [
  'create index concurrently made on t (n)',
  'create unique index concurrently made on apart.t (n)',
  'drop index concurrently t_v',
  'drop index concurrently apart.t_n',
  'reindex index concurrently t_v',
  'reindex table concurrently t',
  'reindex table concurrently wide',
  'reindex (concurrently) table apart.t',
  'reindex table parted',
  'reindex index parted_at',
  'reindex table concurrently parted',
  'alter table parted detach partition parted_2 concurrently',
  'vacuum t',
  'vacuum wide, apart.t',
  'vacuum analyze t',
  'vacuum full t',
  'vacuum full wide',
  'vacuum parted',
  'cluster parted using parted_at',
  'call steps()',
  'do $$ begin update t set n = 1; commit; delete from ref; end $$',
];

export const COMMITTING_SINCE_19: readonly string[] = [
  'repack t',
  'repack wide',
  'repack (analyze) t using index t_pkey',
  'repack parted',
  'repack (concurrently) t',
  'repack (concurrently) wide using index wide_pkey',
];
