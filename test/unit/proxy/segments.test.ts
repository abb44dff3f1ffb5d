import { describe, expect, test } from 'vitest';
import { type ParsedStatement, parseText } from '../../../src/postgres/sql/parse.ts';
import { segmentsOf } from '../../../src/proxy/split.ts';

/** `I(a|b b)` for an implicit segment of the groups `a` and `b b`, `E(…)` for an explicit one. */
async function form(text: string, inBlock = false): Promise<string> {
  const bytes = Buffer.from(text);
  const statements: readonly ParsedStatement[] = (await parseText(bytes)) ?? [];
  const segments = segmentsOf(statements, inBlock);
  if (!segments) return 'whole';
  return segments
    .map(({ implicit, groups }) => {
      const texts = groups.map((group) =>
        group.map(({ from, to }) => bytes.toString('utf8', from, to)).join(' + '),
      );
      return `${implicit ? 'I' : 'E'}(${texts.join(' | ')})`;
    })
    .join(' ');
}

describe('a text is sent as segments', () => {
  test.each([
    ['select 1', 'I(select 1)'],
    ['select 1; select 2', 'I(select 1 | select 2)'],
    [
      'insert into t values (1); insert into t values (2); insert into u values (3)',
      'I(insert into t values (1) + insert into t values (2) | insert into u values (3))',
    ],
    ['begin; select 1; commit', 'E(begin | select 1 | commit)'],
    ['begin; select 1; commit; select 2', 'E(begin | select 1 | commit) I(select 2)'],
    ['do $$ begin end $$', 'I(do $$ begin end $$)'],
    ['begin; select 1', 'E(begin | select 1)'],
    [
      'begin; savepoint a; rollback to a; commit and chain; commit',
      'E(begin | savepoint a | rollback to a | commit and chain | commit)',
    ],
    ['select 1; lock table t', 'I(select 1 | lock table t)'],
    ["select 'é'; select 'ü'", "I(select 'é' | select 'ü')"],
  ])('%s', async (text, expected) => {
    expect(await form(text)).toBe(expected);
  });

  test.each([
    ['select 1; commit', 'E(select 1 | commit)'],
    ['commit; select 1', 'E(commit) I(select 1)'],
    ['vacuum', 'E(vacuum)'],
  ])('in a transaction: %s', async (text, expected) => {
    expect(await form(text, true)).toBe(expected);
  });
});

describe('a text is sent whole', () => {
  test.each([
    'vacuum',
    'vacuum t',
    'create index concurrently on t (v)',
    'drop index concurrently i',
    'alter table p detach partition q concurrently',
    'reindex index concurrently i',
    'reindex schema public',
    'cluster',
    'lock table t',
    'declare c cursor for select 1',
    "set local work_mem = '1MB'",
    'set transaction read only',
    'set constraints all deferred',
    'begin',
    'commit',
    'savepoint a',
    'call p()',
    'do $$ begin commit; end $$',
    'alter system set work_mem = 1',
    'create database d',
    'discard all',
    'analyze',
    'select 1; commit; select 2',
    'select 1; savepoint a',
    'select 1; begin; select 2; commit',
    'begin; begin; commit',
    "begin; prepare transaction 'x'",
    "set client_encoding = 'LATIN1'; select 1",
    'set standard_conforming_strings = off; select 1',
    'reset all; select 1',
  ])('%s', async (text) => {
    expect(await form(text)).toBe('whole');
  });

  test('in a transaction, when it begins another one', async () => {
    expect(await form('begin; select 1', true)).toBe('whole');
  });
});

describe('the parser', () => {
  test.each(['selec 1', '', ' ;; ', '-- nothing'])('leaves the text "%s" to the server', async (text) => {
    expect(await parseText(Buffer.from(text))).toBeNull();
  });

  test('leaves bytes that are not UTF-8 to the server', async () => {
    expect(await parseText(Buffer.from([0x73, 0xff, 0x31]))).toBeNull();
  });

  test('reads a long text in a worker, with the same result', async () => {
    const text = Array.from({ length: 3000 }, (_, index) => `insert into t values (${index}, 'é')`).join(
      ';\n',
    );
    const statements = await parseText(Buffer.from(text));
    expect(statements).toHaveLength(3000);
    const last = statements?.at(-1);
    expect(Buffer.from(text).toString('utf8', last?.from, last?.to)).toBe("insert into t values (2999, 'é')");
    expect(await parseText(Buffer.from(`${text}; selec`))).toBeNull();
  });
});
