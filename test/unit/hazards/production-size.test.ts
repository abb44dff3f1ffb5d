import { describe, expect, test } from 'vitest';
import type { RehearsalEvidence, reachJudgement } from '../../../src/hazards/judgement.ts';
import { extrapolate } from '../../../src/hazards/production/extrapolate.ts';
import { Sizes, speedOfBuild } from '../../../src/hazards/production/sizes.ts';
import type { Profile } from '../../../src/model/profile-model.ts';
import type { DataSection } from '../../../src/model/report.ts';
import { asking, facts, relation, statement } from '../../helpers/facts.ts';
import { judgementOf } from '../../helpers/judgement-of.ts';
import { profiled, sampleProfile } from '../../helpers/profiles.ts';
import { sampleReport } from '../../helpers/reports.ts';

const MB = 2 ** 20;
const ORDERS = 'public.orders';
const table = { schema: 'public', name: 'orders' };
const HERE = new Map([[ORDERS, relation(10 * MB, 100_000)]]);
const HUNDREDFOLD = sampleProfile([profiled(ORDERS, 1000 * MB, 10_000_000)]);

const NO_DATA: DataSection = {
  tables: [],
  unchangedTables: 0,
  written: [],
  lost: [],
  walBytes: null,
  sizeDeltaBytes: null,
};

const BUILD = statement(0, {
  tag: 'CREATE INDEX',
  durationMs: 102,
  transaction: 1,
  locks: [[ORDERS, 'SHARE', 103]],
});
const BUILDING = {
  does: 'create index',
  table,
  index: 'i',
  method: 'btree',
  concurrently: false,
  unique: false,
  ifNotExists: false,
  only: false,
} as const;
const BUILDS = asking({ 0: BUILDING });
const REFERS = asking({
  0: {
    does: 'add constraint',
    table: { schema: 'public', name: 'refunds' },
    kind: 'foreign key',
    constraint: null,
    columns: ['order_id'],
    usingIndex: null,
    notValid: false,
    references: table,
    provesNotNull: [],
    ofNewColumn: false,
  },
});

const judge = (
  given: Parameters<typeof facts>[0],
  profile: Profile | null,
  more?: Partial<RehearsalEvidence>,
) => judgementOf({ catalogue: { relations: HERE }, ...given }, profile, more);

const found = (judgement: ReturnType<typeof reachJudgement>, code: string) =>
  judgement.hazards.find((hazard) => hazard.code === code);

describe('judged by a profile', () => {
  test("locks are counted against the room in production's lock table", () => {
    const names = Array.from({ length: 60 }, (_, index) => `public.part${index}`);
    const locks = names.map((name): [string, 'SHARE', number] => [name, 'SHARE', 1]);
    const given = { statements: [statement(0, { tag: 'DO', transaction: 1, locks })] };
    const settings = {
      max_locks_per_transaction: '10',
      max_connections: '8',
      max_prepared_transactions: '2',
    };
    const judged = judge(given, sampleProfile([profiled(ORDERS, MB, 1)], { settings }));
    expect(found(judged, 'LOCK_TABLE_FULL')).toMatchObject({
      message: "one transaction locks 60 relations, and the target's lock table holds 100",
      evidence: '60 %, without the locks that others hold, which a profile does not have',
    });
    expect(found(judge(given, HUNDREDFOLD), 'LOCK_TABLE_FULL')).toBeUndefined();
  });

  test('a lock is as grave as it would be in production, and its time there is an interval', () => {
    const given = { statements: [BUILD], parsed: BUILDS };
    expect(found(judge(given, null), 'INDEX_NOT_CONCURRENT')?.severity).toBe('notice');
    const judged = judge(given, HUNDREDFOLD);
    expect(found(judged, 'INDEX_NOT_CONCURRENT')).toMatchObject({
      severity: 'error',
      evidence: expect.stringMatching(
        /^SHARE on public\.orders for ≈ [\d.]+–\d+ s at production's size \(1,?000 MB\)/,
      ),
    });
    expect(judged.statements[0]).toMatchObject({
      durationMs: 102,
      locks: [{ heldMs: 103, atProductionSize: { basis: 'measured rate' } }],
    });
    expect(judged.caveats).toContainEqual(
      expect.objectContaining({ path: 'statements[].atProductionSize', kind: 'estimate' }),
    );
    expect(judged.forecast).toMatchObject({ profiledAt: HUNDREDFOLD.takenAt, sessions: { open: 40 } });
  });

  test('a lock lasts through the later statements of its transaction, which take longer there', () => {
    const add = statement(0, {
      tag: 'ALTER TABLE',
      durationMs: 1,
      transaction: 1,
      locks: [[ORDERS, 'ACCESS EXCLUSIVE', 104]],
    });
    const judged = judge(
      { statements: [add, { ...BUILD, index: 1 }], parsed: asking({ 1: BUILDING }) },
      HUNDREDFOLD,
    );
    expect(judged.statements[0]?.atProductionSize).toBeUndefined();
    expect(judged.statements[0]?.locks?.[0]?.atProductionSize?.ms).toBeGreaterThan(10_000);
  });

  test('a lock at the end of a long statement is not held while it works', () => {
    const detach = { ...BUILD, locks: statement(0, { locks: [[ORDERS, 'SHARE', 1]] }).locks };
    const held = judge({ statements: [detach], parsed: BUILDS }, HUNDREDFOLD).statements[0]?.locks?.[0];
    expect(held?.atProductionSize?.ms).toBeLessThan(200);
  });

  test('what takes a moment whatever the size stays as it was measured', () => {
    const rename = { ...BUILD, tag: 'ALTER TABLE' };
    const parsed = asking({ 0: { does: 'rename', table, column: 'a', object: null, to: 'b' } });
    expect(judge({ statements: [rename], parsed }, HUNDREDFOLD).statements[0]).toEqual(rename);
  });

  test('a reference of a new table without rows looks nothing up, however large the other table is', () => {
    const refers = statement(0, {
      tag: 'ALTER TABLE',
      durationMs: 3,
      transaction: 1,
      locks: [[ORDERS, 'SHARE ROW EXCLUSIVE', 4]],
    });
    const timeAfter = (inserted: number) => {
      const written =
        inserted === 0 ? [] : [{ relation: 'public.refunds', inserted, updated: 0, deleted: 0 }];
      const data: DataSection = { ...NO_DATA, written };
      return judge({ statements: [refers], parsed: REFERS, data }, HUNDREDFOLD).statements[0]
        ?.atProductionSize;
    };
    expect(timeAfter(0)).toBeUndefined();
    expect(timeAfter(1000)).toBeDefined();
  });

  test('a table that is empty in production looks nothing up there, however large the other table is', () => {
    const timeWith = (rows: number) =>
      judge(
        {
          statements: [statement(0, { tag: 'ALTER TABLE', durationMs: 50 })],
          parsed: REFERS,
          catalogue: { relations: new Map([...HERE, ['public.refunds', relation(MB, rows)]]) },
        },
        sampleProfile([profiled(ORDERS, 1000 * MB, 10_000_000), profiled('public.refunds', MB, rows)]),
      ).statements[0]?.atProductionSize;
    expect(timeWith(0)).toBeUndefined();
    expect(timeWith(5000)).toBeDefined();
  });

  test('rows that an UPDATE changes grow with the table; one row that it named does not', () => {
    const update = (rows: number) =>
      judge(
        {
          statements: [statement(0, { tag: 'UPDATE', rows, durationMs: 50 })],
          parsed: asking({ 0: { does: 'update', table } }),
        },
        HUNDREDFOLD,
      );
    expect(found(update(900), 'BACKFILL_IN_ONE_TRANSACTION')).toMatchObject({
      severity: 'notice',
      message: expect.stringContaining('about 90,000 rows'),
    });
    expect(update(1).statements[0]?.rowsAtProductionSize).toBeUndefined();
  });

  test('batches stay as large as they are: there would be more of them', () => {
    const batch = (index: number, sql: string) =>
      statement(index, { sql, tag: 'UPDATE', rows: 900, durationMs: 50 });
    const rowsOf = (...texts: string[]) =>
      judge(
        {
          statements: texts.map((sql, index) => batch(index, sql)),
          parsed: asking(Object.fromEntries(texts.map((_, index) => [index, { does: 'update', table }]))),
        },
        HUNDREDFOLD,
      ).statements.map((each) => each.rowsAtProductionSize);
    const by = (from: number) => `UPDATE orders SET a = 1 WHERE id > ${from} AND id < ${from + 900}`;
    expect(rowsOf(by(0), by(900))).toEqual([undefined, undefined]);
    expect(rowsOf('UPDATE orders SET a = 1 WHERE id IN (SELECT id FROM orders LIMIT 900)')).toEqual([
      undefined,
    ]);
    expect(rowsOf(by(0))).toEqual([90_000]);
  });

  test('SET NOT NULL of a column that was NOT NULL before reads nothing', () => {
    const given = {
      statements: [{ ...BUILD, tag: 'ALTER TABLE' }],
      parsed: asking({ 0: { does: 'set not null', table, column: 'a' } }),
    };
    const { schema } = sampleReport();
    expect(judge({ ...given, schema }, HUNDREDFOLD).statements[0]?.atProductionSize).toBeUndefined();
    expect(judge({ ...given, schema: null }, HUNDREDFOLD, { schema: null }).statements[0]).toHaveProperty(
      'atProductionSize',
    );
  });

  test('a relation that the profile does not have is judged by its size here, and named', () => {
    const judged = judge({ statements: [BUILD], parsed: BUILDS }, sampleProfile([]));
    expect(found(judged, 'INDEX_NOT_CONCURRENT')?.severity).toBe('notice');
    expect(judged.missing).toEqual([ORDERS]);
    expect(judged.caveats).toContainEqual(
      expect.objectContaining({ reason: `the profile does not have ${ORDERS}: judged by the size here` }),
    );
  });

  test('a renamed relation is found by the name from before the command', () => {
    const catalogue = {
      ...facts({}).catalogue,
      relations: new Map([['public.sales', relation(10 * MB, 100_000)]]),
      renamed: new Map([[ORDERS, 'public.sales']]),
    };
    const locked = { ...BUILD, locks: statement(0, { locks: [['public.sales', 'SHARE', 103]] }).locks };
    const judged = judge({ statements: [locked], parsed: BUILDS, catalogue }, HUNDREDFOLD);
    expect(judged.missing).toEqual([]);
    expect(judged.statements[0]?.locks?.[0]?.atProductionSize?.ms).toBeGreaterThan(10_000);
  });

  test('rates come from it, so that statements that would wait are counted', () => {
    const busy = { readsPerSecond: 50, insertsPerSecond: 5, writesPerSecond: 20 };
    const profile = sampleProfile([profiled(ORDERS, 10 * MB, 100_000, busy)]);
    const judged = judge({ statements: [BUILD], parsed: BUILDS }, profile);
    expect(judged.forecast?.locks[0]).toMatchObject({ writesPerSecond: 20, queued: 2 });
  });

  test('disk space is needed for the relations as they are there, and WAL grows with them', () => {
    const data = {
      unchangedTables: 0,
      written: [],
      lost: [],
      walBytes: 20 * MB,
      sizeDeltaBytes: 1 * MB,
      tables: [
        {
          relation: ORDERS,
          rowsBefore: 1,
          rowsAfter: 1,
          exact: true,
          rewritten: true,
          bytesBefore: 10 * MB,
          bytesAfter: 10 * MB,
        },
      ],
    };
    const rewrite = statement(0, {
      tag: 'ALTER TABLE',
      durationMs: 100,
      rewrote: [ORDERS],
      walBytes: 20 * MB,
      locks: [[ORDERS, 'ACCESS EXCLUSIVE', 100]],
    });
    const profile = sampleProfile([profiled(ORDERS, 1000 * MB, 10_000_000, { indexBytes: 300 * MB })], {
      freeBytes: 2000 * MB,
    });
    const judged = judge({ statements: [rewrite], data }, profile, {
      rewrittenBytes: new Map([[ORDERS, 12 * MB]]),
    });
    expect(judged.forecast?.disk).toEqual({ neededBytes: (1300 + 100 + 2000) * MB, freeBytes: 2000 * MB });
    expect(found(judged, 'DISK_FILLS_UP')?.severity).toBe('error');
  });
});

describe('a duration at production’s size', () => {
  const hundredfold = {
    hereBytes: 10 * MB,
    thereBytes: 1000 * MB,
    hereRows: 1e5,
    thereRows: 1e7,
    workRows: null,
    speedup: 1,
  };

  test('is the measured rate times the size, with sorting’s share for an index', () => {
    expect(extrapolate(102, 'scan', hundredfold)).toMatchObject({ ms: 10_101, basis: 'measured rate' });
    expect(extrapolate(102, 'build', hundredfold)?.ms).toBeCloseTo(14_141);
  });

  test('is wider, the less was measured', () => {
    const width = (durationMs: number) => {
      const { lowMs = 0, highMs = 0 } = extrapolate(durationMs, 'scan', hundredfold) ?? {};
      return highMs / lowMs;
    };
    expect(width(8)).toBeGreaterThan(width(80));
  });

  test('has a typical rate if too little was measured, and never more than all of it would grow to', () => {
    const tiny = { ...hundredfold, hereBytes: 8192, thereBytes: 10_240 * MB, hereRows: 5, thereRows: 1e8 };
    const found = extrapolate(1, 'scan', tiny);
    expect(found).toMatchObject({ basis: 'typical rate' });
    expect(found?.ms).toBeGreaterThan(10_000);
    expect(found?.ms).toBeLessThan(60_000);
    expect(extrapolate(0.5, 'scan', { ...tiny, hereBytes: 1024 * MB, hereRows: 1e7 })?.ms).toBeLessThan(10);
  });

  test('leaves out what a statement takes on an empty table, if it has little time', () => {
    const small = { ...hundredfold, hereBytes: MB / 2, thereBytes: 50 * MB };
    expect(extrapolate(3, 'rewrite', small)?.ms).toBeCloseTo(1 + 2 * 100 * (7 / 5) ** 0.25);
    expect(extrapolate(1, 'rewrite', small)?.ms).toBeLessThan(70);
  });

  test('of an index is shorter with the workers that the server has for larger tables', () => {
    const settings = { max_parallel_maintenance_workers: '2', maintenance_work_mem: '65536 kB' };
    expect(speedOfBuild(2 * MB, settings)).toBe(1);
    expect(speedOfBuild(1000 * MB, settings)).toBeCloseTo(2 ** 0.7);
    expect(speedOfBuild(1000 * MB, { ...settings, maintenance_work_mem: '1048576 kB' })).toBeCloseTo(
      3 ** 0.7,
    );
    expect(speedOfBuild(20 * MB, { ...settings, maintenance_work_mem: '1048576 kB' })).toBeCloseTo(2 ** 0.7);
    expect(speedOfBuild(1000 * MB, { ...settings, max_parallel_maintenance_workers: '0' })).toBe(1);
    expect(speedOfBuild(1000 * MB, {})).toBe(1);
    const alone = extrapolate(102, 'build', hundredfold);
    const together = extrapolate(102, 'build', { ...hundredfold, speedup: 1.6 });
    expect(together?.ms).toBeCloseTo(1 + 14_140 / 1.6);
    expect(together?.highMs).toBeCloseTo(alone?.highMs ?? 0);
  });

  test('of an index is shorter only if it is one that several processes build', () => {
    const settings = { max_parallel_maintenance_workers: '2', maintenance_work_mem: '65536 kB' };
    const there = sampleProfile([profiled(ORDERS, 1000 * MB, 10_000_000)], { settings });
    const here = new Map([[ORDERS, relation(4 * MB, 40_000)]]);
    const timeOf = (method: string) =>
      judge(
        {
          statements: [BUILD],
          parsed: asking({ 0: { ...BUILDING, method } }),
          catalogue: { relations: here },
        },
        there,
      ).statements[0]?.atProductionSize?.ms ?? 0;
    expect(timeOf('gin') / timeOf('btree')).toBeCloseTo(2 ** 0.7, 1);
  });

  test('is not told of rows or code of which too little was measured, nor of sizes that are alike', () => {
    expect(extrapolate(1, 'rows', hundredfold)).toBeNull();
    expect(extrapolate(1, 'rows', { ...hundredfold, workRows: 1e4 })?.ms).toBeCloseTo(100, -2);
    expect(extrapolate(3, 'code', hundredfold)).toBeNull();
    expect(extrapolate(500, 'scan', { ...hundredfold, thereBytes: 11 * MB, thereRows: 1.1e5 })).toBeNull();
  });
});

test('values of a column there are estimated by its share of NULLs, and not known without statistics', () => {
  const column = { width: 8, distinct: -1, correlation: null };
  const planner = {
    pages: 10,
    visiblePages: 0,
    indexes: [],
    columns: [{ ...column, column: 'note', nullFraction: 0.75 }],
  };
  const profile = sampleProfile([profiled('public.orders', 1000, 200_000, { planner })]);
  const sizes = new Sizes(facts({}).catalogue, profile);
  expect(sizes.valuesThere('public.orders.note')).toBe(50_000);
  expect(sizes.valuesThere('public.orders.total')).toBeNull();
});
