alter table t add column z int;
create index on t(v);
