import { describe, expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import { NO_EFFECTS } from '../../../src/model/effect-facts.ts';
import type { HazardFacts, RelationFacts } from '../../../src/model/hazard-facts.ts';
import type { SchemaSection } from '../../../src/model/report.ts';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import type { LockMode } from '../../../src/postgres/lock-modes.ts';
import { facts, relation, schema, statement } from '../../helpers/facts.ts';

type Locks = [string, LockMode, number][];

/** The hazards of statements that ran one after the other in one transaction. */
async function hazardsOf(
  lines: readonly (string | readonly [sql: string, locks: Locks])[],
  more: Partial<SchemaSection>,
  kinds: Record<string, RelationFacts['kind']>,
  others: Partial<HazardFacts> = {},
) {
  const statements = lines.map((line, at) => {
    const [sql, locks] = typeof line === 'string' ? [line, [] as Locks] : line;
    return statement(at + 1, { sql, locks, tag: sql.split(' ')[0] ?? '', transaction: 1, durationMs: 900 });
  });
  const relations = new Map(
    Object.entries(kinds).map(([name, kind]) => [`public.${name}`, relation(2 ** 20, 100, kind)]),
  );
  return findHazards(
    facts({
      statements,
      parsed: await statementFacts(statements),
      schema: schema(more),
      catalogue: { relations },
      ...others,
    }),
  );
}

const dropped = (object: string) => ({
  changes: [{ verb: 'drop' as const, kind: 'column', object, sql: '', dataLoss: true }],
});

describe('the statement of a hazard', () => {
  test('is the one that renames this column, not one whose names contain it', async () => {
    const renames = [
      { kind: 'column', from: 'public.sales_channel.chk', to: 'public.sales_channel.ord' },
      { kind: 'column', from: 'public.auto_sales_channels.chk', to: 'public.auto_sales_channels.ord' },
    ];
    const found = await hazardsOf(
      [
        'ALTER TABLE auto_sales_channels RENAME COLUMN chk TO ord',
        'ALTER TABLE sales_channel RENAME COLUMN chk TO ord',
      ],
      { renames },
      { sales_channel: 'table', auto_sales_channels: 'table' },
    );
    const of = found.filter(({ code }) => code === 'COLUMN_RENAMED');
    expect(of.map(({ relation, statement }) => [relation, statement])).toEqual([
      ['public.auto_sales_channels', 1],
      ['public.sales_channel', 2],
    ]);
  });

  test('is the one that drops a column, also under its new name', async () => {
    const found = await hazardsOf(
      ['ALTER TABLE t RENAME COLUMN a TO a_old', 'ALTER TABLE t DROP COLUMN a_old'],
      dropped('public.t.a'),
      { t: 'table' },
    );
    expect(found.find(({ code }) => code === 'COLUMN_DROPPED')?.statement).toBe(2);
  });
});

test('a dropped column whose name another one takes is replaced by a copy', async () => {
  const lines = ['ALTER TABLE t DROP COLUMN value', 'ALTER TABLE t RENAME COLUMN value_new TO value'];
  const found = await hazardsOf(lines, dropped('public.t.value'), { t: 'table' });
  expect(found.find(({ code }) => code === 'COLUMN_DROPPED')?.message).toBe(
    'replaces the column public.t.value by value_new, which takes its name',
  );
  const alone = await hazardsOf(lines.slice(0, 1), dropped('public.t.value'), { t: 'table' });
  expect(alone.find(({ code }) => code === 'COLUMN_DROPPED')?.message).toBe(
    'drops the column public.t.value',
  );
});

describe('what is no hazard', () => {
  test.each<[string, string, Locks, Record<string, RelationFacts['kind']>]>([
    [
      'REFRESH CONCURRENTLY, which nobody waits for',
      'REFRESH MATERIALIZED VIEW CONCURRENTLY v',
      [['public.v', 'EXCLUSIVE', 900]],
      { v: 'materialized view' },
    ],
    [
      'CREATE INDEX ON ONLY a partitioned table, which builds nothing',
      'CREATE INDEX i ON ONLY p (a)',
      [['public.p', 'SHARE', 1]],
      { p: 'partitioned table' },
    ],
  ])('is %s', async (_, sql, locks, kinds) => {
    const found = await hazardsOf([[sql, locks]], {}, kinds);
    const codes = found.map(({ code }) => code);
    expect(codes.filter((code) => !['NO_LOCK_TIMEOUT', 'STRONG_LOCK_HELD'].includes(code))).toEqual([]);
    expect(codes).not.toContain(sql.startsWith('REFRESH') ? 'STRONG_LOCK_HELD' : '');
  });
});

test('tables that one transaction locks for seconds are a warning', async () => {
  const locks = (table: string): Locks => [[`public.${table}`, 'ACCESS EXCLUSIVE', 3_000]];
  const found = await hazardsOf(
    [
      ['ALTER TABLE a ADD x int', locks('a')],
      ['ALTER TABLE b ADD x int', locks('b')],
    ],
    {},
    { a: 'table', b: 'table' },
  );
  expect(found.find(({ code }) => code === 'SEVERAL_STRONG_LOCKS')?.severity).toBe('warning');
});

test('a function that breaks has the statement about an object that it mentions, or the few that may be it', async () => {
  const breakingBy = async (...lines: readonly (readonly [sql: string, table: string])[]) => {
    const statements = lines.map(([sql, table], at) =>
      statement(at + 1, { sql, tag: 'ALTER TABLE', locks: [[table, 'ACCESS EXCLUSIVE', 1]] }),
    );
    const broken = {
      function: 'public.theme(integer)',
      names: null,
      mentions: ['public.things.settings', 'public.things.note'],
      error: 'operator does not exist: text ->> unknown',
      triggersOn: [],
    };
    const effects = { ...NO_EFFECTS, brokenFunctions: [broken] };
    const found = findHazards(
      facts({ statements, parsed: await statementFacts(statements), catalogue: { effects } }),
    ).find(({ code }) => code === 'FUNCTION_BREAKS');
    return [found?.statement, /one of the statements (.*)$/.exec(found?.evidence ?? '')?.[1]];
  };
  const retyped = ['ALTER TABLE things ALTER settings TYPE text', 'public.things'] as const;
  const other = ['ALTER TABLE others ALTER settings TYPE text', 'public.others'] as const;
  const added = ['ALTER TABLE things ADD note text', 'public.things'] as const;
  const owned = ['ALTER TABLE things OWNER TO app', 'public.things'] as const;
  expect(await breakingBy(other, retyped, owned)).toEqual([2, undefined]);
  expect(await breakingBy(added, retyped)).toEqual([null, '1, 2']);
  expect(await breakingBy(owned)).toEqual([1, undefined]);
  expect(
    await breakingBy(retyped, [
      'CREATE OR REPLACE FUNCTION theme(id int) RETURNS int LANGUAGE sql AS $$ SELECT nothing $$',
      'public.things',
    ]),
  ).toEqual([2, undefined]);
});

describe('of a block that commits within', () => {
  const found = async (body: string, lock: { heldMs: number; byRule?: true }, timeoutByDefault = false) => {
    const locked = {
      relation: 'public.t',
      mode: 'ACCESS EXCLUSIVE',
      acquiredBy: 'DO',
      blocks: ['reads'],
      ...lock,
    };
    const sql = `DO $$ BEGIN ${body} END $$`;
    const block = { ...statement(1, { sql, tag: 'DO', durationMs: 60_000 }), locks: [locked] };
    const catalogue = {
      relations: new Map([['public.t', relation(2 ** 40, 1e9)]]),
      lockTimeoutByDefault: timeoutByDefault,
    };
    const hazards = findHazards(
      facts({ statements: [block], parsed: await statementFacts([block]), catalogue }),
    );
    return hazards.map(({ code, severity }) => `${severity} ${code}`);
  };
  const ALTERS = 'ALTER TABLE t ADD a int; COMMIT; PERFORM work();';

  test('a lock that is never seen, or for a moment, is none that is held for long', async () => {
    expect(await found(ALTERS, { heldMs: 200, byRule: true }, true)).toEqual([]);
    expect(await found(ALTERS, { heldMs: 60 }, true)).toEqual([]);
    expect(await found(ALTERS, { heldMs: 12_000 }, true)).toEqual(['error STRONG_LOCK_HELD']);
  });

  test('it waits for its locks without a timeout unless it sets one', async () => {
    const lock = { heldMs: 20, byRule: true } as const;
    expect(await found(ALTERS, lock)).toEqual(['warning NO_LOCK_TIMEOUT']);
    expect(await found(`SET LOCAL lock_timeout = '2s'; ${ALTERS}`, lock)).toEqual([]);
    expect(await found(`PERFORM set_config('lock_timeout', '2s', true); ${ALTERS}`, lock)).toEqual([]);
    expect(await found(`SET lock_timeout = 0; ${ALTERS}`, lock)).toEqual(['warning NO_LOCK_TIMEOUT']);
  });
});
