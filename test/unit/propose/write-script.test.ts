import { describe, expect, test } from 'vitest';
import { HazardContext } from '../../../src/hazards/hazard-context.ts';
import { type ColumnTrial, NO_EFFECTS } from '../../../src/model/effect-facts.ts';
import type { Hazard, StatementSection } from '../../../src/model/report.ts';
import { statementFacts } from '../../../src/observe/statement-facts.ts';
import type { RelationBefore } from '../../../src/observe/tables-before.ts';
import { keptStatements } from '../../../src/propose/kept-statements.ts';
import { statementsOfScript, writeScript } from '../../../src/propose/write-script.ts';
import { facts, relation, statement } from '../../helpers/facts.ts';

const ORDERS: RelationBefore = {
  kind: 'table',
  key: ['id'],
  nullable: new Set(['note', 'total']),
  partitionedBy: null,
};

interface Given {
  readonly codes: Readonly<Record<number, readonly string[]>>;
  readonly orders?: Partial<RelationBefore>;
  /** All in one transaction. */
  readonly block?: boolean;
  readonly values?: Readonly<Record<number, readonly string[] | null>>;
  readonly trials?: readonly ColumnTrial[];
}

/** Writes the script of these statements; hazards are given by the number of the statement. */
async function written(
  texts: readonly string[],
  { codes, orders = {}, block = false, values = {}, trials = [] }: Given,
) {
  const statements = texts.map(
    (sql, at): StatementSection =>
      statement(at + 1, {
        sql,
        tag: sql.split(' ')[0] ?? '',
        rows: 2000,
        ...(block ? { transaction: 1, explicit: true } : {}),
      }),
  );
  const hazards = Object.entries(codes).flatMap(([index, list]) =>
    list.map(
      (code): Hazard => ({
        code,
        severity: 'warning',
        statement: Number(index),
        relation: 'public.orders',
        message: '',
        evidence: '',
        advice: '',
        allowed: false,
      }),
    ),
  );
  const context = new HazardContext(
    facts({
      statements,
      parsed: await statementFacts(statements),
      catalogue: {
        relations: new Map([['public.orders', relation(1e9, 1e6)]]),
        effects: { ...NO_EFFECTS, columnTrials: trials },
      },
    }),
  );
  const recording = {
    context,
    sent: new Map(texts.map((sql, at) => [at + 1, { sql, values: values[at + 1] }])),
    sessions: new Map(),
  };
  const before = { relations: new Map([['public.orders', { ...ORDERS, ...orders }]]), columns: new Map() };
  return writeScript(recording, before, await keptStatements(recording, hazards, 'safer'), hazards);
}

async function sqlOf(texts: readonly string[], given: Given): Promise<string[]> {
  const { parts } = await written(texts, given);
  const [timeout, ...rest] = statementsOfScript(parts);
  expect(timeout).toBe("SET lock_timeout = '2s'");
  return rest;
}

describe('a statement gets its safer form', () => {
  test('an index is built concurrently, after what a failed build has left is dropped', async () => {
    const sql = await sqlOf(["CREATE INDEX orders_note ON orders (note) WHERE note <> 'index' -- INDEX"], {
      codes: { 1: ['INDEX_NOT_CONCURRENT'] },
    });
    expect(sql[0]).toMatch(/to_regclass\('public\."orders_note"'\) AND NOT indisvalid/);
    expect(sql.slice(1)).toEqual([
      'SET lock_timeout = 0',
      "CREATE INDEX CONCURRENTLY orders_note ON orders (note) WHERE note <> 'index'",
      "SET lock_timeout = '2s'",
    ]);
  });

  test('a constant default beside one that rewrites the table is not filled in batches', async () => {
    const trial = (column: string, rewrites: boolean) => ({
      statement: 1,
      column,
      rewrites,
      storedFor: null,
    });
    const sql = await sqlOf(['ALTER TABLE orders ADD a int DEFAULT 0, ADD b float DEFAULT random()'], {
      codes: { 1: ['VOLATILE_DEFAULT_REWRITES'] },
      trials: [trial('a', false), trial('b', true)],
    });
    expect(sql[0]).toBe('ALTER TABLE orders ADD a int DEFAULT 0');
    expect(sql[1]).toMatch(/^ALTER TABLE orders ADD b float,? /);
    expect(sql.join()).not.toMatch(/SET "a"/);
    expect(sql.join()).toMatch(/SET "b" = DEFAULT/);
  });

  test('the commands of an ALTER TABLE are taken apart, and keep their order', async () => {
    const alter = `ALTER TABLE IF EXISTS ONLY "public"."orders"
      ADD COLUMN a int DEFAULT f(1, 2), /* , */
      ADD CHECK (total > 0),
      ADD CONSTRAINT "Fk" FOREIGN KEY (a, total) REFERENCES b (x, y) DEFERRABLE,
      ALTER COLUMN note SET NOT NULL, -- the end
      DROP COLUMN "b,c"`;
    expect(
      await sqlOf([alter], {
        codes: { 1: ['CHECK_SCANS_TABLE', 'FOREIGN_KEY_SCANS_TABLE', 'SET_NOT_NULL_SCANS_TABLE'] },
      }),
    ).toEqual([
      'ALTER TABLE IF EXISTS ONLY "public"."orders" ADD COLUMN a int DEFAULT f(1, 2)',
      'ALTER TABLE "public"."orders" ADD CONSTRAINT "orders_total_check" CHECK (total > 0) NOT VALID',
      'ALTER TABLE "public"."orders" VALIDATE CONSTRAINT "orders_total_check"',
      'ALTER TABLE "public"."orders" ADD CONSTRAINT "Fk" FOREIGN KEY (a, total) REFERENCES b (x, y) DEFERRABLE NOT VALID',
      'ALTER TABLE "public"."orders" VALIDATE CONSTRAINT "Fk"',
      'ALTER TABLE "public"."orders" ADD CONSTRAINT orders_note_proven CHECK ("note" IS NOT NULL) NOT VALID',
      'ALTER TABLE "public"."orders" VALIDATE CONSTRAINT orders_note_proven',
      'ALTER TABLE "public"."orders" ALTER COLUMN "note" SET NOT NULL',
      'ALTER TABLE "public"."orders" DROP CONSTRAINT orders_note_proven',
      'ALTER TABLE IF EXISTS ONLY "public"."orders" DROP COLUMN "b,c"',
    ]);
  });

  test('a primary key is made of an index, after its columns are proved', async () => {
    const sql = await sqlOf(['ALTER TABLE orders ADD PRIMARY KEY (id, total) INCLUDE (note)'], {
      codes: { 1: ['CONSTRAINT_BUILDS_INDEX'] },
    });
    expect(sql).toContain('ALTER TABLE orders ALTER COLUMN "total" SET NOT NULL');
    expect(sql).not.toContain('ALTER TABLE orders ALTER COLUMN "id" SET NOT NULL');
    expect(sql).toContain(
      'CREATE UNIQUE INDEX CONCURRENTLY "orders_pkey" ON orders ("id", "total") INCLUDE ("note")',
    );
    expect(sql.at(-1)).toBe(
      'ALTER TABLE orders ADD CONSTRAINT "orders_pkey" PRIMARY KEY USING INDEX "orders_pkey"',
    );
  });

  test('a column with a volatile default is added empty, filled, and then required', async () => {
    const sql = await sqlOf(['ALTER TABLE orders ADD token uuid NOT NULL DEFAULT gen_random_uuid()'], {
      codes: { 1: ['VOLATILE_DEFAULT_REWRITES'] },
    });
    expect(sql[0]).toBe(
      'ALTER TABLE orders ADD token uuid, ALTER COLUMN "token" SET DEFAULT gen_random_uuid()',
    );
    expect(sql[2]).toMatch(/UPDATE orders AS filled SET "token" = DEFAULT/);
    expect(sql[2]).toMatch(/filled\."id" >= safemigrate_low_1 AND filled\."id" <= safemigrate_high_1/);
    expect(sql[6]).toBe('ALTER TABLE orders ALTER COLUMN "token" SET NOT NULL');
  });

  test('a foreign key of a new column is added to the table, with the words on when it is checked', async () => {
    const alter =
      'ALTER TABLE orders ADD a int DEFAULT 1 NOT NULL CONSTRAINT fk REFERENCES b (id) DEFERRABLE INITIALLY DEFERRED CHECK (a > 0)';
    expect(await sqlOf([alter], { codes: { 1: ['FOREIGN_KEY_SCANS_TABLE'] } })).toEqual([
      'ALTER TABLE orders ADD a int DEFAULT 1 NOT NULL CHECK (a > 0)',
      'ALTER TABLE orders ADD CONSTRAINT fk FOREIGN KEY ("a") REFERENCES b (id) DEFERRABLE INITIALLY DEFERRED NOT VALID',
      'ALTER TABLE orders VALIDATE CONSTRAINT "fk"',
    ]);
    const unique = 'ALTER TABLE orders ADD a int DEFAULT 1 UNIQUE DEFERRABLE INITIALLY DEFERRED';
    expect((await sqlOf([unique], { codes: { 1: ['CONSTRAINT_BUILDS_INDEX'] } })).at(-1)).toBe(
      'ALTER TABLE orders ADD CONSTRAINT "orders_a_key" UNIQUE USING INDEX "orders_a_key" DEFERRABLE INITIALLY DEFERRED',
    );
    const unnamed = 'ALTER TABLE orders ADD a int DEFAULT 1 REFERENCES b';
    expect((await sqlOf([unnamed], { codes: { 1: ['FOREIGN_KEY_SCANS_TABLE'] } })).slice(1)).toEqual([
      'ALTER TABLE orders ADD CONSTRAINT "orders_a_fkey" FOREIGN KEY ("a") REFERENCES b NOT VALID',
      'ALTER TABLE orders VALIDATE CONSTRAINT "orders_a_fkey"',
    ]);
  });

  test('a name stays in its quotes', async () => {
    expect(
      await sqlOf(['ALTER TABLE "order" ALTER note SET NOT NULL'], {
        codes: { 1: ['SET_NOT_NULL_SCANS_TABLE'] },
      }),
    ).toContain('ALTER TABLE "order" VALIDATE CONSTRAINT order_note_proven');
  });

  test('a CHECK and UNIQUE of a new column come after it', async () => {
    const sql = await sqlOf(['ALTER TABLE orders ADD a int DEFAULT 1 CHECK (a > 0) NOT NULL UNIQUE'], {
      codes: { 1: ['CHECK_SCANS_TABLE', 'CONSTRAINT_BUILDS_INDEX'] },
    });
    expect(sql.slice(0, 3)).toEqual([
      'ALTER TABLE orders ADD a int DEFAULT 1 NOT NULL',
      'ALTER TABLE orders ADD CONSTRAINT "orders_a_check" CHECK (a > 0) NOT VALID',
      'ALTER TABLE orders VALIDATE CONSTRAINT "orders_a_check"',
    ]);
    expect(sql.at(-1)).toBe(
      'ALTER TABLE orders ADD CONSTRAINT "orders_a_key" UNIQUE USING INDEX "orders_a_key"',
    );
  });

  test('an UPDATE goes through the ranges of a key of several columns, with its own condition in parentheses', async () => {
    const [, sql] = await sqlOf(
      ["UPDATE orders o SET note = 'a' FROM b WHERE b.id = o.id OR o.note IS NULL -- all"],
      {
        codes: { 1: ['BACKFILL_IN_ONE_TRANSACTION'] },
        orders: { key: ['shop', 'id'] },
      },
    );
    expect(sql).toContain(`UPDATE orders o SET note = 'a' FROM b
    WHERE ("o"."shop", "o"."id") >= (safemigrate_low_1, safemigrate_low_2) AND ("o"."shop", "o"."id") <= (safemigrate_high_1, safemigrate_high_2)
      AND (b.id = o.id OR o.note IS NULL)`);
  });

  test('queries are left out, unless they write', async () => {
    const writing = [
      "SELECT pg_catalog.setval('orders_id_seq', 7)",
      "SELECT set_config('a.b', '1', false)",
      'SELECT f()',
    ];
    const texts = ['SELECT count(*) FROM orders', 'SELECT pg_try_advisory_lock(1)', ...writing];
    expect(await sqlOf(texts, { codes: {} })).toEqual(writing);
  });

  test('parameters are written as values', async () => {
    const sql = await sqlOf(["UPDATE orders SET note = $1 WHERE id = $2 AND note <> '$1'"], {
      codes: {},
      values: { 1: ["'it''s'", "'7'::bigint"] },
    });
    expect(sql).toEqual(["UPDATE orders SET note = 'it''s' WHERE id = '7'::bigint AND note <> '$1'"]);
  });
});

describe('a transaction', () => {
  test('is divided if it takes several locks, and keeps its statements together if not', async () => {
    const texts = [
      'BEGIN',
      'ALTER TABLE orders ADD a int',
      'ALTER TABLE customers ADD a int',
      'SELECT count(*) FROM orders',
      'COMMIT',
    ];
    expect(await sqlOf(texts, { codes: { 3: ['SEVERAL_STRONG_LOCKS'] }, block: true })).toEqual([
      'ALTER TABLE orders ADD a int',
      'ALTER TABLE customers ADD a int',
    ]);
    expect(await sqlOf(texts, { codes: {}, block: true })).toEqual([
      'BEGIN',
      'ALTER TABLE orders ADD a int',
      'ALTER TABLE customers ADD a int',
      'COMMIT',
    ]);
  });

  test('is committed before a statement that has to be outside, and begun again after it', async () => {
    const texts = [
      'BEGIN',
      'CREATE TABLE a ()',
      'CREATE TABLE b ()',
      'DROP INDEX x, "y,z"',
      'CREATE TABLE c ()',
    ];
    expect(await sqlOf(texts, { codes: { 4: ['DROP_INDEX_NOT_CONCURRENT'] }, block: true })).toEqual([
      ...['BEGIN', 'CREATE TABLE a ()', 'CREATE TABLE b ()', 'COMMIT'],
      ...['SET lock_timeout = 0', 'DROP INDEX CONCURRENTLY x', "SET lock_timeout = '2s'"],
      ...['SET lock_timeout = 0', 'DROP INDEX CONCURRENTLY "y,z"', "SET lock_timeout = '2s'"],
      'CREATE TABLE c ()',
    ]);
  });

  test('ends with the one statement that is left of it', async () => {
    const texts = ['BEGIN', 'ALTER TABLE orders ADD a int', 'SELECT pg_sleep(5)', 'COMMIT'];
    const given = { codes: { 2: ['WORK_AFTER_STRONG_LOCK'] }, block: true };
    expect(await sqlOf(texts, given)).toEqual(['ALTER TABLE orders ADD a int']);
    expect((await written(texts, given)).changes).toMatchObject([
      { statement: 2, codes: ['WORK_AFTER_STRONG_LOCK'] },
    ]);
  });

  test('has no SET CONSTRAINTS IMMEDIATE any more if it is divided', async () => {
    const texts = [
      'BEGIN',
      'SET CONSTRAINTS fk IMMEDIATE',
      'ALTER TABLE orders DROP CONSTRAINT fk',
      'ALTER TABLE b ADD a int',
    ];
    expect(await sqlOf(texts, { codes: { 4: ['SEVERAL_STRONG_LOCKS'] }, block: true })).toEqual([
      'ALTER TABLE orders DROP CONSTRAINT fk',
      'ALTER TABLE b ADD a int',
    ]);
  });

  test('drops an index concurrently that it dropped under the lock of another statement', async () => {
    const texts = [
      'BEGIN',
      'ALTER TABLE orders ADD a int',
      'DROP INDEX x',
      'ALTER TABLE b ADD a int',
      'COMMIT',
    ];
    const sql = await sqlOf(texts, { codes: { 4: ['SEVERAL_STRONG_LOCKS'] }, block: true });
    expect(sql).toContain('DROP INDEX CONCURRENTLY x');
  });

  test('loses the limits that it set for itself', async () => {
    const texts = [
      ...['BEGIN', "SET LOCAL statement_timeout = '5s'", "SET LOCAL lock_timeout = '1s'"],
      ...['CREATE INDEX orders_note ON orders (note)', 'COMMIT'],
    ];
    const sql = await sqlOf(texts, { codes: { 4: ['INDEX_NOT_CONCURRENT'] }, block: true });
    expect(sql.filter((each) => each.startsWith('SET LOCAL'))).toEqual([]);
    expect(sql).toContain('CREATE INDEX CONCURRENTLY orders_note ON orders (note)');
  });

  test('stays as it is if it holds a lock for itself', async () => {
    const texts = ['BEGIN', 'LOCK TABLE orders', 'CREATE INDEX ON orders (note)', 'COMMIT'];
    const { changes, left } = await written(texts, { codes: { 3: ['INDEX_NOT_CONCURRENT'] }, block: true });
    expect(changes).toEqual([]);
    expect(left[0]?.words).toMatch(/holds a lock/);
  });
});

describe('is left as it was, with the reason,', () => {
  test.each([
    [
      'CREATE INDEX ON orders (note)',
      'INDEX_NOT_CONCURRENT',
      { kind: 'partitioned table' },
      /no concurrent build/,
    ],
    ['UPDATE orders SET note = 1', 'BACKFILL_IN_ONE_TRANSACTION', { key: null }, /no key/],
    ['UPDATE orders SET id = id + 1', 'BACKFILL_IN_ONE_TRANSACTION', {}, /changes the key/],
    [
      'DELETE FROM orders WHERE id IN (SELECT id FROM orders)',
      'BACKFILL_IN_ONE_TRANSACTION',
      {},
      /own table/,
    ],
    ['DELETE FROM orders RETURNING id', 'BACKFILL_IN_ONE_TRANSACTION', {}, /RETURNING/],
    ['DROP INDEX a CASCADE', 'DROP_INDEX_NOT_CONCURRENT', {}, /CASCADE/],
    ['REFRESH MATERIALIZED VIEW orders', 'REFRESH_NOT_CONCURRENT', { key: null }, /unique index/],
    ['ALTER TABLE orders SET TABLESPACE x', 'TABLESPACE_REWRITES', {}, /as a copy/],
    ['ALTER TABLE orders ADD a text DEFAULT f() COLLATE "C"', 'VOLATILE_DEFAULT_REWRITES', {}, /collation/],
    ['ALTER TABLE orders ADD UNIQUE (note) WITH (fillfactor = 70)', 'CONSTRAINT_BUILDS_INDEX', {}, /options/],
  ] as const)('%s', async (sql, code, orders, reason) => {
    const { changes, left, parts } = await written([sql], { codes: { 1: [code] }, orders });
    expect(changes).toEqual([]);
    expect(left).toMatchObject([{ statement: 1, codes: [code] }]);
    expect(left[0]?.words).toMatch(reason);
    expect(statementsOfScript(parts).at(-1)).toBe(sql);
  });
});

test.each([
  ["CREATE ROLE a PASSWORD 'secret'", undefined, /password/],
  ['UPDATE orders SET note = $1', null, /parameters/],
  ['COPY orders FROM STDIN', undefined, /copies rows/],
])('%s cannot be written as a script', async (sql, values, reason) => {
  const given = values === undefined ? {} : { values: { 1: values } };
  await expect(written([sql], { codes: {}, ...given })).rejects.toThrow(reason);
});
