import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import { parse } from 'libpg-query';
import { describe, expect, test } from 'vitest';
import {
  beginsAsData,
  beginsAsDml,
  beginsAsIncidental,
  beginsAsPreparable,
  changesLocksOfDml,
  changesReading,
  concurrentFailure,
  copiesData,
  effectOf,
  effectOfTag,
  evaluatesExpressions,
  inBlock,
  isDml,
  isHarmlessElsewhere,
  isIncidental,
  isQuery,
  leavesNothingBehind,
  roleOf,
  saysNowait,
  settingsNamedBy,
} from '../../../src/postgres/sql/classify-statement.ts';
import { parseText } from '../../../src/postgres/sql/parse.ts';
import { STATEMENT_KINDS } from '../../../src/postgres/sql/statement-kinds.ts';
import { kindOf, type Node } from '../../../src/postgres/sql/tree.ts';
import { STATEMENT_CORPUS } from '../../helpers/statement-corpus.ts';

async function nodeOf(sql: string): Promise<Node> {
  const [statement] = (await parseText(Buffer.from(sql))) ?? [];
  if (!statement) throw new Error(`no statement: ${sql}`);
  return statement.node;
}

const corpus = await Promise.all(STATEMENT_CORPUS.map(async (sql) => ({ sql, node: await nodeOf(sql) })));

/** The statements of the corpus that have a property. */
function thoseThat(has: (node: Node) => boolean): string[] {
  return corpus.filter(({ node }) => has(node)).map(({ sql }) => sql);
}

const unknown: Node = { DefragmentStmt: { relation: { relname: 't' } } };

describe('the table', () => {
  test('has every kind of statement that the parser declares', () => {
    const types = path.dirname(createRequire(import.meta.url).resolve('@pgsql/types'));
    const declared = readFileSync(path.join(types, 'types.d.ts'), 'utf8').matchAll(/^ {4}(\w+Stmt): \1;$/gm);
    // Nodes that occur only within a statement.
    const inner = new Set([
      'RawStmt',
      'SetOperationStmt',
      'ReturnStmt',
      'PLAssignStmt',
      'ReplicaIdentityStmt',
    ]);
    const kinds = [...declared].map(([, kind = '']) => kind).filter((kind) => !inner.has(kind));
    expect(kinds.length).toBeGreaterThan(100);
    const newer = ['RepackStmt', 'WaitStmt'];
    expect(Object.keys(STATEMENT_KINDS).sort()).toEqual([...kinds, ...newer].sort());
  });

  test('has no kind that the corpus has no statement of', () => {
    const found = new Set(corpus.map(({ node }) => kindOf(node)));
    expect(Object.keys(STATEMENT_KINDS).filter((kind) => !found.has(kind))).toEqual([]);
  });
});

describe('statements of a property', () => {
  test('DML', () => {
    expect(thoseThat(isDml)).toEqual([
      "insert into t values (3, 'c')",
      'update t set n = 2',
      'delete from other',
      'merge into t using other on t.id = other.id when matched then do nothing',
    ]);
  });

  test('queries', () => {
    expect(thoseThat(isQuery)).toEqual([
      'select 1',
      'select 1 into made',
      'with gone as (delete from t returning *) select * from gone',
      'values (1)',
      'table t',
      'select * from t for update nowait',
    ]);
  });

  test('refused in a transaction block', () => {
    expect(thoseThat((node) => inBlock(node) === 'refused')).toEqual([
      "commit prepared 'two'",
      "rollback prepared 'two'",
      'discard all',
      'vacuum t',
      'vacuum',
      'cluster',
      'reindex table concurrently t',
      'reindex (concurrently) table t',
      'reindex schema apart',
      'alter table parted detach partition parted_1 concurrently',
      'create index concurrently made on t (v)',
      'drop index concurrently t_v',
      "create subscription made connection 'dbname=nosuch' publication told",
      'create database made',
      'drop database made',
      'alter database made set tablespace pg_default',
      "create tablespace made location '/nosuch'",
      'drop tablespace made',
      'alter system set lock_timeout = 0',
    ]);
  });

  test('meaningful only in a transaction block', () => {
    expect(thoseThat((node) => inBlock(node) === 'required')).toEqual([
      'declare c cursor for select 1',
      'set local lock_timeout = 0',
      'set transaction isolation level serializable',
      'set constraints all deferred',
      'lock table t',
      'lock table t nowait',
    ]);
  });

  test('other in a transaction block than outside of one', () => {
    expect(thoseThat((node) => inBlock(node) === 'differs' && roleOf(node) === 'ordinary')).toEqual([
      'call nothing()',
      'do $$ begin\ncommit; end $$',
      'analyze t, other',
      "wait for lsn '0/1'",
      'alter subscription made disable',
      'drop subscription made',
    ]);
  });

  test('concurrent, by what a failure leaves behind', () => {
    const failures = corpus.flatMap(({ sql, node }) => {
      const failure = concurrentFailure(node);
      return failure === undefined ? [] : [[sql, failure]];
    });
    expect(failures).toEqual([
      ['refresh materialized view concurrently kept', 'nothing in its way'],
      ['reindex table concurrently t', 'another meaning'],
      ['reindex (concurrently) table t', 'another meaning'],
      ['alter table parted detach partition parted_1 concurrently', 'another meaning'],
      ['create index concurrently made on t (v)', 'an invalid index'],
      ['drop index concurrently t_v', 'nothing in its way'],
    ]);
  });

  test('NOWAIT', () => {
    expect(thoseThat(saysNowait)).toEqual([
      'select * from t for update nowait',
      'lock table t nowait',
      'alter table all in tablespace pg_default set tablespace pg_default nowait',
    ]);
  });

  test('without effect of their own', () => {
    expect(thoseThat((node) => ['none', 'reads'].includes(effectOf(node)) && !isIncidental(node))).toEqual([
      'select 1',
      'values (1)',
      'table t',
      'select * from t for update nowait',
      'copy t to stdout',
      'explain select 1',
      'declare c cursor for select 1',
      'prepare p as select 1',
      'prepare p as delete from other',
      "load 'plpgsql'",
      'lock table t',
      'lock table t nowait',
      'vacuum t',
      'vacuum',
      'analyze t',
      'analyze t, other',
    ]);
  });

  test('of no consequence but for their session or transaction', () => {
    const kinds = corpus.filter(({ node }) => isIncidental(node)).map(({ node }) => kindOf(node));
    expect([...new Set(kinds)].map((kind) => kind.replace('Stmt', '')).join(' ')).toBe(
      'Fetch ClosePortal Deallocate Transaction VariableSet VariableShow ConstraintsSet Discard Listen Unlisten Notify CheckPoint Wait',
    );
  });

  test('harmless in another database', () => {
    const harmless = thoseThat(isHarmlessElsewhere);
    expect(harmless).toEqual(
      expect.arrayContaining(['select 1', 'prepare p as select 1', 'create database made', 'reset all']),
    );
    expect(harmless).not.toContain('select 1 into made');
    expect(harmless).not.toContain('with gone as (delete from t returning *) select * from gone');
    expect(harmless).not.toContain('prepare p as delete from other');
    expect(harmless).not.toContain('create table made (id int)');
    expect(harmless).not.toContain('lock table t');
  });

  test('a change of the locks that DML takes', async () => {
    const rest = thoseThat((node) => !changesLocksOfDml(node));
    expect(rest).toEqual(
      expect.arrayContaining(['select 1', 'commit', "set lock_timeout = '5s'", 'copy t from stdin']),
    );
    for (const sql of ['create index on t (v)', 'set search_path to apart', 'discard all', 'call nothing()'])
      expect(rest).not.toContain(sql);
    expect(changesLocksOfDml(await nodeOf("select set_config('search_path', 'apart', false)"))).toBe(true);
  });

  test('copying data, evaluating expressions', () => {
    expect(thoseThat(copiesData)).toEqual(['copy t to stdout', 'copy t from stdin']);
    expect(thoseThat(evaluatesExpressions)).toContain('execute p');
    expect(thoseThat(evaluatesExpressions)).not.toContain('create view made as select 1');
  });
});

test.each([
  ['begin', 'begin'],
  ['start transaction', 'begin'],
  ['commit', 'end'],
  ['rollback', 'end'],
  ['commit and chain', 'chain'],
  ['savepoint s', 'savepoint'],
  ['rollback to s', 'savepoint'],
  ["prepare transaction 'two'", 'prepare-transaction'],
  ["commit prepared 'two'", 'ordinary'],
  ['select 1', 'ordinary'],
])('the role of %s is %s', async (sql, role) => {
  expect(roleOf(await nodeOf(sql))).toBe(role);
});

test.each([
  ['select', 'reads', 'select f(1)'],
  ['a query that makes a table', 'schema', 'select 1 into made'],
  ['a query with DML in it', 'rows', 'with gone as (delete from t returning *) select * from gone'],
  ['EXPLAIN of a statement that writes', 'schema', 'explain analyze create table made as select 1'],
  ['COPY from the client', 'rows', 'copy t from stdin'],
  ['COPY of a query with DML in it', 'rows', 'copy (delete from t returning *) to stdout'],
  ['NOTIFY', 'none', 'notify news'],
  ['a literal that looks like a tree', 'reads', `select '{"InsertStmt":{}}', '"intoClause"'`],
])('the effect of %s is %s', async (_what, effect, sql) => {
  expect(effectOf(await nodeOf(sql))).toBe(effect);
});

describe('how texts are read', () => {
  test.each([
    "set client_encoding to 'LATIN1'",
    "set names 'latin1'",
    'set standard_conforming_strings = off',
    'reset all',
    'discard all',
    "select set_config('client_encoding', 'LATIN1', false)",
    "select set_config(name, 'off', false) from (values ('standard_conforming_strings')) as v(name)",
  ])('%s changes it', async (sql) => {
    expect(changesReading(await nodeOf(sql))).toBe(true);
  });

  test.each([
    "set client_encoding = 'UTF8'",
    'set standard_conforming_strings = on',
    "set search_path to 'client_encoding'",
    "select 'client_encoding'",
    'discard plans',
  ])('%s does not', async (sql) => {
    expect(changesReading(await nodeOf(sql))).toBe(false);
  });
});

test('a statement names the settings that it changes', async () => {
  expect(settingsNamedBy(await nodeOf("set lock_timeout = '5s'"))).toEqual(['lock_timeout']);
  expect(
    settingsNamedBy(await nodeOf("select pg_catalog.set_config('lock_timeout', '5s', false)")),
  ).toContain('lock_timeout');
  expect(settingsNamedBy(await nodeOf("select 'lock_timeout'"))).toEqual([]);
});

test('a text leaves nothing behind without control of transactions, prepared statements and session locks', async () => {
  const leaves = async (sql: string) =>
    leavesNothingBehind(sql, (await parse(sql)).stmts?.map(({ stmt }) => stmt as Node) ?? []);
  expect(await leaves('create table a (); insert into b values (1)')).toBe(true);
  expect(await leaves('begin; create table a (); commit')).toBe(false);
  expect(await leaves('prepare p as select 1; create table a ()')).toBe(false);
  expect(await leaves('select pg_advisory_lock(1); create table a ()')).toBe(false);
  expect(await leaves('do $$ begin perform pg_advisory_lock(1); end $$; select 1')).toBe(false);
  expect(await leaves('select pg_advisory_xact_lock(1); create table a ()')).toBe(true);
});

test('what the first word tells agrees with the parser, but for WITH', () => {
  const first = (sql: string) => sql.split(' ')[0] !== 'with';
  const plain = corpus.filter(({ sql }) => first(sql));
  for (const { sql, node } of plain) {
    expect([sql, beginsAsDml(sql)]).toEqual([sql, isDml(node)]);
    expect([sql, beginsAsPreparable(sql)]).toEqual([sql, isDml(node) || isQuery(node)]);
  }
  expect(beginsAsDml('with a as (select 1) insert into t select * from a')).toBe(false);
  expect(beginsAsPreparable(' /* one */ -- two\n (SELECT 1)')).toBe(true);
  expect(beginsAsData('with a as (select 1) table a')).toBe(true);
  expect(beginsAsData('copy t to stdout')).toBe(true);
  expect(beginsAsData('create table a as select 1')).toBe(false);
  expect(beginsAsIncidental("prepare transaction 'two'")).toBe(false);
  expect(beginsAsIncidental('RESET ALL')).toBe(true);
  expect(beginsAsIncidental('')).toBe(false);
});

test.each([
  ['INSERT 0 1', 'rows'],
  ['SELECT 3', 'reads'],
  ['BEGIN', 'none'],
  ['LOCK TABLE', 'none'],
  ['TRUNCATE TABLE', 'rows'],
  ['COPY 3', 'unknown'],
  ['ALTER TABLE', 'unknown'],
  ['DO', 'unknown'],
  [null, 'unknown'],
])('the command tag %s tells the effect %s', (tag, effect) => {
  expect(effectOfTag(tag)).toBe(effect);
});

test('a kind that the table does not have may do anything', () => {
  expect(effectOf(unknown)).toBe('unknown');
  expect(inBlock(unknown)).toBe('differs');
  expect(changesLocksOfDml(unknown)).toBe(true);
  expect(isIncidental(unknown) || isHarmlessElsewhere(unknown)).toBe(false);
  expect(leavesNothingBehind('', [unknown])).toBe(false);
});
