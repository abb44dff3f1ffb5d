import { describe, expect, test } from 'vitest';
import { transactionText } from '../../../src/load/play-shapes.ts';
import { type RecordedTraffic, shapesForProfile, trafficOfProfile } from '../../../src/load/record-shapes.ts';
import type { SeenTransaction } from '../../../src/load/seen-transactions.ts';
import { type CountedTraffic, foldShapes } from '../../../src/load/shapes.ts';

const [A, B] = [16385, 16391];

function seen(
  key: string,
  granted: number[],
  waiting: number[] = [],
  ageMs: number | null = 2,
): SeenTransaction {
  const locks = [
    ...granted.map((relation) => ({ relation, mode: 'ROW EXCLUSIVE' as const, granted: true })),
    ...waiting.map((relation) => ({ relation, mode: 'ROW EXCLUSIVE' as const, granted: false })),
  ];
  return { key, ageMs, locks };
}

function counted(more: Partial<CountedTraffic> = {}): CountedTraffic {
  return { readings: 100, windowMs: 10_000, transactions: 1000, changedRows: new Map(), called: [], ...more };
}

const times = (count: number, make: (n: number) => SeenTransaction) =>
  Array.from({ length: count }, (_, n) => make(n));
const both = (shapes: ReturnType<typeof foldShapes>) => shapes.find(({ steps }) => steps.length === 2);
const orderOf = (shapes: ReturnType<typeof foldShapes>) =>
  both(shapes)?.steps.map(({ relation }) => relation);

test('a relation that is also seen locked alone comes first', () => {
  const shapes = foldShapes(
    [...times(20, (n) => seen(`both ${n}`, [A, B])), ...times(5, (n) => seen(`one ${n}`, [B]))],
    counted(),
  );
  expect(orderOf(shapes)).toEqual([B, A]);
  expect(both(shapes)?.unordered).toEqual([]);
});

test('a relation that a transaction waits for comes after those that it holds', () => {
  const shapes = foldShapes(
    [...times(20, (n) => seen(`both ${n}`, [A, B])), seen('waits', [B], [A])],
    counted(),
  );
  expect(orderOf(shapes)).toEqual([B, A]);
  expect(both(shapes)?.unordered).toEqual([]);
});

test('a transaction that is seen again with one relation more has locked that one later', () => {
  const shapes = foldShapes([seen('same', [B]), seen('same', [A, B])], counted());
  expect(orderOf(shapes)).toEqual([B, A]);
  expect(both(shapes)?.unordered).toEqual([]);
});

test('relations that are only seen together, or in both orders, have none', () => {
  expect(
    both(
      foldShapes(
        times(50, (n) => seen(`both ${n}`, [A, B])),
        counted(),
      ),
    )?.unordered,
  ).toEqual([[A, B]]);
  const mixed = [
    ...times(50, (n) => seen(`both ${n}`, [A, B])),
    ...times(5, (n) => seen(`a ${n}`, [A])),
    ...times(5, (n) => seen(`b ${n}`, [B])),
  ];
  expect(both(foldShapes(mixed, counted()))?.unordered).toHaveLength(1);
});

test('kinds come as often as the server counts transactions, for as long as they are seen', () => {
  // 100 sightings in 100 readings are one transaction at any time; 100 a second take 10 ms each.
  const [shape] = foldShapes(
    times(100, (n) => seen(`t ${n}`, [A], [], 10)),
    counted(),
  );
  expect(shape?.perSecond).toBeCloseTo(100);
  expect(shape?.holdMs).toBeCloseTo(10);
  const [unseen] = foldShapes(
    times(100, (n) => seen(`t ${n}`, [A], [], null)),
    counted(),
  );
  expect(unseen?.perSecond).toBeCloseTo(100);
});

test('transactions that are seen again and again last as long as their last sightings say', () => {
  // Readers of two seconds, three at a time, seen every 100 ms, beside others of 0.5 ms.
  const readers = Array.from({ length: 15 }, (_, reader) =>
    Array.from({ length: 20 }, (_, n) => seen(`reader ${reader}`, [A], [], n * 100 + 50)),
  ).flat();
  const shapes = foldShapes(
    [...readers, ...times(10, (n) => seen(`short ${n}`, [B], [], 0.5))],
    counted({ transactions: 2015 }),
  );
  const [reader, short] = shapes;
  expect(reader?.holdMs).toBeCloseTo(2000, -2);
  expect(reader?.perSecond).toBeCloseTo(1.5, 1);
  expect(short?.perSecond).toBeCloseTo(200, -1);
});

test('changed rows are shared out among the transactions that write to the relation', () => {
  const [shape] = foldShapes(
    times(100, (n) => seen(`t ${n}`, [A], [], 10)),
    counted({ changedRows: new Map([[A, 3000]]) }),
  );
  expect(shape?.steps[0]?.rows).toBeCloseTo(3);
});

test('a statement that was counted and never seen is a kind of its own, and the transactions that were seen are the rest', () => {
  const called = [
    { locks: new Map([[B, 'ACCESS SHARE' as const]]), perSecond: 60 },
    // Transactions of A were seen.
    { locks: new Map([[A, 'ACCESS SHARE' as const]]), perSecond: 500 },
  ];
  const shapes = foldShapes(
    times(40, (n) => seen(`t ${n}`, [A], [], 10)),
    counted({ called }),
  );
  expect(shapes.map(({ steps, perSecond }) => [steps[0]?.relation, Math.round(perSecond)])).toEqual([
    [A, 40],
    [B, 60],
  ]);
  const calledOften = foldShapes(
    [],
    counted({ called: [{ ...called[0], perSecond: 500 }] as typeof called }),
  );
  expect(calledOften[0]?.perSecond).toBeCloseTo(100);
});

const uses = (relation: number, perSecond: number) => ({
  locks: new Map([[relation, 'ROW EXCLUSIVE' as const]]),
  perSecond,
});
const rates = (shapes: ReturnType<typeof foldShapes>) =>
  shapes.map(({ steps, perSecond }) => [steps.map(({ relation }) => relation), Math.round(perSecond)]);

describe('transactions of A and B that are often met before they lock B', () => {
  const begun = times(30, (n) => seen(`begun ${n}`, [A], [], 2));
  const whole = times(20, (n) => seen(`whole ${n}`, [A, B], [], 4));
  const alone = times(60, (n) => seen(`alone ${n}`, [A], [], 0.2));
  const late = times(20, (n) => seen(`late ${n}`, [A, B], [], 40));

  test('are taken for what the counter of B says', () => {
    const all = foldShapes([...begun, ...whole], counted({ called: [uses(A, 100), uses(B, 100)] }));
    expect(rates(all)).toEqual([[[A, B], 100]]);
    const half = foldShapes([...begun, ...whole], counted({ called: [uses(A, 100), uses(B, 50)] }));
    expect(rates(half)).toEqual([
      [[A], 50],
      [[A, B], 50],
    ]);
  });

  test('are left as they were met if nothing counts B', () => {
    expect(foldShapes([...begun, ...whole], counted())).toHaveLength(2);
  });

  test('are others if they are too many to be the beginnings of so few', () => {
    const shapes = foldShapes([...alone, ...late], counted({ called: [uses(A, 100), uses(B, 100)] }));
    const [short, long] = rates(shapes);
    expect(short).toEqual([[A], expect.any(Number)]);
    expect(Number(short?.[1])).toBeGreaterThan(10 * Number(long?.[1]));
  });

  test('are others if B comes first', () => {
    const first = times(60, (n) => seen(`first ${n}`, [B], [], 2));
    const shapes = foldShapes(
      [...begun.slice(0, 10), ...whole, ...first],
      counted({ called: [uses(A, 100), uses(B, 100)] }),
    );
    expect(rates(shapes).some(([relations]) => String(relations) === String([A]))).toBe(true);
  });
});

test('transactions that are too short for their ages come as often as their tables are used', () => {
  const short = times(10, (n) => seen(`t ${n}`, [A], [], 10));
  const [used] = foldShapes(short, counted({ called: [uses(A, 90)] }));
  expect(used?.perSecond).toBeCloseTo(90);
  // The others may have locked no table.
  expect(foldShapes(short, counted())[0]?.perSecond).toBeCloseTo(20);
});

test('one sighting of a short transaction does not make more of them than there were', () => {
  const [shape] = foldShapes([seen('t', [A], [], 0.1)], counted({ transactions: 100 }));
  expect(shape?.perSecond).toBeCloseTo(10);
  expect(shape?.holdMs).toBeCloseTo(1);
});

/** Numbers in [0, 1) that are the same in each run. */
function numbersFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

/** What readings every 25 ms for 10 s see of 96 transactions a second that lock A, and how many sessions hold it on average. */
function sampled(durationMs: (random: () => number) => number) {
  const random = numbersFrom(7);
  const windowMs = 10_000;
  const running = Array.from({ length: (96 * windowMs) / 1000 }, (_, n) => {
    const beganMs = random() * windowMs;
    return { key: `t ${n}`, beganMs, endedMs: beganMs + durationMs(random) };
  });
  const readings = windowMs / 25;
  const all = Array.from({ length: readings }, (_, n) => n * 25 + random() * 5).flatMap((atMs) =>
    running
      .filter(({ beganMs, endedMs }) => beganMs <= atMs && atMs < endedMs)
      .map(({ key, beganMs }) => seen(key, [A], [], atMs - beganMs)),
  );
  const held = running.reduce((sum, { beganMs, endedMs }) => sum + endedMs - beganMs, 0) / windowMs;
  return { all, held, counted: counted({ readings, windowMs, transactions: running.length }) };
}

test.each([
  ['all of 4 ms', () => 4],
  ['all of 150 ms', () => 150],
  ['of 1 ms, and 5 % of 150 ms', (random) => (random() < 0.05 ? 150 : 1)],
  ['too short to be seen, and 5 % of 150 ms', (random) => (random() < 0.05 ? 150 : 0.001)],
  ['of 1 ms, and 20 % of 150 ms', (random) => (random() < 0.2 ? 150 : 1)],
  ['of 5 ms on warm pages, and up to a second on cold ones', (random) => 5 + 1000 * random() ** 12],
] satisfies [string, (random: () => number) => number][])(
  'transactions %s come as often as they were counted, and hold their locks for as long',
  (_, durationMs) => {
    const { all, held, counted: server } = sampled(durationMs);
    // One statement in each transaction, and three.
    for (const called of [[uses(A, 96)], [uses(A, 288)]]) {
      const shapes = foldShapes(all, { ...server, called });
      const perSecond = shapes.reduce((sum, each) => sum + each.perSecond, 0);
      const holding = shapes.reduce((sum, each) => sum + (each.perSecond * each.holdMs) / 1000, 0);
      expect(perSecond / 96).toBeGreaterThan(0.8);
      expect(perSecond / 96).toBeLessThan(1.2);
      expect(holding / held).toBeGreaterThan(0.75);
      expect(holding / held).toBeLessThan(1.35);
    }
  },
);

test('a shape is played as one transaction that locks relations and existing rows, and changes nothing', () => {
  const text = transactionText(
    {
      steps: [
        { relation: B, mode: 'ROW EXCLUSIVE', rows: 2 },
        { relation: A, mode: 'ACCESS SHARE', rows: 0 },
      ],
      perSecond: 1,
      holdMs: 10,
      unordered: [],
    },
    new Map([
      [A, 'public.a'],
      [B, `public."b's"`],
    ]),
  );
  const lines = text.split('\n').filter((line) => !line.startsWith('  '));
  expect(lines).toEqual([
    'BEGIN;',
    `LOCK TABLE ONLY public."b's" IN ROW EXCLUSIVE MODE;`,
    'SELECT 1 FROM (',
    'SELECT pg_catalog.pg_sleep(0.0050);',
    'LOCK TABLE ONLY public.a IN ACCESS SHARE MODE;',
    'SELECT pg_catalog.pg_sleep(0.0050);',
    'COMMIT;',
  ]);
  expect(text).toContain(`'public."b''s"'::pg_catalog.regclass`);
  expect(text).toMatch(/LIMIT 2\) q/);
  expect(text).toMatch(/ORDER BY q\.place FOR NO KEY UPDATE OF t;/);
  expect(text).not.toMatch(/\b(UPDATE|DELETE|INSERT) (?!SKIP)\w+ (SET|FROM|INTO)/);
});

test('a profile holds shapes by name, and gives them back', () => {
  const recorded: RecordedTraffic = {
    shapes: [
      {
        steps: [
          { relation: B, mode: 'ROW EXCLUSIVE', rows: 1 },
          { relation: A, mode: 'ACCESS SHARE', rows: 0 },
        ],
        perSecond: 12.34567,
        holdMs: 3,
        unordered: [[A, B]],
      },
      { steps: [{ relation: B, mode: 'ROW EXCLUSIVE', rows: 1 }], perSecond: 1, holdMs: 1, unordered: [] },
    ],
    names: new Map([
      [A, 'public.a'],
      [B, 'public."b"'],
    ]),
    clients: 3,
    perSecond: 20,
    windowMs: 10_000,
    readings: 100,
    uncounted: null,
  };
  const profiled = shapesForProfile(recorded);
  expect(profiled?.kinds[0]).toMatchObject({ perSecond: 12.35, unordered: [['public.a', 'public."b"']] });
  if (!profiled) throw new Error('there are shapes');
  const all = trafficOfProfile(profiled);
  const named = all.shapes.map(({ steps }) => steps.map(({ relation }) => all.names.get(relation)));
  expect(named).toEqual([['public."b"', 'public.a'], ['public."b"']]);
  expect(all.shapes[0]?.unordered.flat().map((oid) => all.names.get(oid))).toEqual([
    'public.a',
    'public."b"',
  ]);
  expect(shapesForProfile({ ...recorded, shapes: [] })).toBeNull();
});
