import { describe, expect, test } from 'vitest';
import { namedLocks } from '../../../../src/postgres/sql/classify-statement.ts';
import { parseText } from '../../../../src/postgres/sql/parse.ts';
import { plpgsqlPath } from '../../../../src/postgres/sql/plpgsql-path.ts';
import { kindOf, type Node } from '../../../../src/postgres/sql/tree.ts';

const tables = (nodes: readonly Node[]) =>
  nodes.flatMap((node) => namedLocks(node).map(({ relation }) => relation.name)).join(' ');

describe('of a body in PL/pgSQL it is known', () => {
  test.each([
    ['one after the other', 'truncate a; commit; truncate b;', 'a b', ''],
    [
      'a branch',
      'if x > 1 then truncate a; elsif x = 0 then truncate b; else truncate c; end if; truncate d;',
      'd',
      'a b c',
    ],
    ['a case', 'case x when 1 then truncate a; else truncate b; end case; truncate c;', 'c', 'a b'],
    ['a loop', 'loop truncate a; exit when x = 1; truncate b; end loop; truncate c;', 'a c', 'b'],
    ['a loop over rows', 'for r in select * from a loop truncate b; end loop; truncate c;', 'a c', 'b'],
    ['a loop over numbers', 'for i in 1..3 loop truncate a; commit; end loop; truncate b;', 'b', 'a'],
    ['a condition', 'while x > 1 loop truncate a; end loop;', '', 'a'],
    ['an early return', 'truncate a; if x = 1 then return; end if; truncate b;', 'a', 'b'],
    [
      'a return in a loop',
      'loop truncate a; if x = 1 then return; end if; exit; end loop; truncate b;',
      'a',
      'b',
    ],
    [
      'an exit of a loop outside',
      '<<outer>> loop loop exit outer when x = 1; truncate a; end loop; truncate b; end loop;',
      '',
      'a b',
    ],
    ['a block', 'begin truncate a; end; truncate b;', 'a b', ''],
    [
      'a block that catches errors',
      'begin truncate a; exception when others then truncate b; end; truncate c;',
      'c',
      'a b',
    ],
    ['a text', "execute 'truncate a';", 'a', ''],
  ])('what is certain, and what is possible: %s', async (_, body, certain, possible) => {
    const path = await plpgsqlPath(`do $$ declare x int; r record; begin ${body} end $$`);
    expect(path && [tables(path.certain), tables(path.possible), path.composes]).toEqual([
      certain,
      possible,
      false,
    ]);
  });

  test('that it executes texts which are made at run time', async () => {
    const path = await plpgsqlPath("do $$ begin execute format('truncate %I', 'a'); call p(); end $$");
    expect(path).toMatchObject({ composes: true, possible: [] });
    expect(path?.certain.map(kindOf)).toEqual(['CallStmt']);
  });

  test('nothing, if it cannot be parsed', async () => {
    expect(await plpgsqlPath('do $$ begin nonsense end $$')).toBeNull();
  });
});

test.each([
  ['select * from a join b on true for update of b', 'b ROW SHARE, a ACCESS SHARE'],
  ['select * from a as x, b for no key update of x', 'a ROW SHARE, b ACCESS SHARE'],
  ['with a as (delete from b returning *) select * from a', 'b ROW EXCLUSIVE'],
  ['insert into a select * from s.b', 'a ROW EXCLUSIVE, b ACCESS SHARE'],
  ['alter table a set (autovacuum_enabled = off)', 'a SHARE UPDATE EXCLUSIVE'],
  ['alter table a set (user_catalog_table = on)', 'a ACCESS EXCLUSIVE'],
  ['alter table a validate constraint c, alter b set default 1', 'a ACCESS EXCLUSIVE'],
  ['alter table a add foreign key (b) references b', 'a SHARE ROW EXCLUSIVE, b SHARE ROW EXCLUSIVE'],
  ['create table if not exists a (b int references b)', ''],
])('%s locks %s', async (sql, locks) => {
  const nodes = (await parseText(Buffer.from(sql))) ?? [];
  const named = nodes.flatMap(({ node }) => namedLocks(node));
  expect(named.map(({ relation, mode }) => `${relation.name} ${mode}`).join(', ')).toBe(locks);
});
