import * as fc from 'fast-check';
import { beforeAll, expect, test } from 'vitest';
import { normalizeSql } from '../../../../src/postgres/sql/normalize.ts';
import { parseText } from '../../../../src/postgres/sql/parse.ts';
import { kindOf, walkTree } from '../../../../src/postgres/sql/tree.ts';
import { segmentsOf } from '../../../../src/proxy/split.ts';
import { holds } from '../../../helpers/properties.ts';

beforeAll(async () => void (await parseText(Buffer.from('select 1'))));

/** Pieces of which quotes, comments and calls are made, in any order. */
const pieces = fc.constantFrom(
  "'",
  "''",
  '"',
  '\\',
  '$$',
  '$a1$',
  '$é$',
  '--',
  '\n',
  '/*',
  '*/',
  ' ',
  'E',
  'U&',
  'x',
  ', f()',
  '1',
  '1x',
  '$1',
  ',',
  'é',
  "E'a'",
  "'b'",
);
const expression = fc.array(pieces, { maxLength: 9 }).map((list) => list.join(''));

async function callsIn(sql: string): Promise<number | undefined> {
  const statements = await parseText(Buffer.from(sql));
  if (statements?.length !== 1) return undefined;
  let calls = 0;
  walkTree(statements[0]?.node, (key) => {
    if (key === 'FuncCall') calls++;
  });
  return calls;
}

test('statements with one normalised text call the same functions', async () => {
  const seen = new Map<string, { sql: string; calls: number }>();
  await holds(
    'normalised text',
    10_000,
    fc.asyncProperty(expression, async (middle) => {
      const sql = `insert into t values (1${middle})`;
      const calls = await callsIn(sql);
      if (calls === undefined) return;
      const like = seen.get(normalizeSql(sql));
      if (like) expect({ sql, like: like.sql, calls }).toEqual({ sql, like: like.sql, calls: like.calls });
      else seen.set(normalizeSql(sql), { sql, calls });
    }),
  );
});

const STATEMENTS = [
  'select 1',
  "insert into é values ('ü;')",
  'begin',
  'commit',
  '/* ; */ rollback',
  'savepoint s',
  'vacuum',
  'create table a ()',
  'do $$ begin; end $$',
  'selec',
];

test('the parts of a text are the text, in order, and each is the statement that the parser found', async () => {
  const gap = fc.constantFrom('', ' ', '\n', '-- é\n', ';');
  await holds(
    'split text',
    10_000,
    fc.asyncProperty(
      fc.array(fc.tuple(gap, fc.constantFrom(...STATEMENTS)), { minLength: 1, maxLength: 5 }),
      fc.boolean(),
      async (parts, inBlock) => {
        const text = Buffer.from(parts.map(([before, sql]) => before + sql).join(';'));
        const statements = await parseText(text);
        if (parts.some(([, sql]) => sql === 'selec')) {
          expect(statements).toBeNull();
          return;
        }
        const segments = segmentsOf(statements ?? [], inBlock);
        if (!segments) return;
        const flat = segments.flatMap(({ groups }) => groups.flat());
        expect(flat).toEqual(statements);
        let at = 0;
        for (const { from, to, node } of flat) {
          expect(from).toBeGreaterThanOrEqual(at);
          expect(text.toString('utf8', at, from).replace(/--.*\n|\/\*.*\*\//g, '')).toMatch(/^[\s;]*$/);
          at = to;
          const [alone] = (await parseText(text.subarray(from, to))) ?? [];
          expect(alone && kindOf(alone.node)).toBe(kindOf(node));
        }
        return;
      },
    ),
  );
});
