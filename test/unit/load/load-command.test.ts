import { expect, test } from 'vitest';
import type { EndedTransaction } from '../../../src/load/traffic-log.ts';
import type { Observed, Statement } from '../../../src/proxy/observed.ts';
import { transactionsInto } from '../../../src/rehearsal/load-traffic.ts';

const statement = (id: number, transaction: number): Statement => ({
  id,
  session: 1,
  pid: 1,
  sql: 'SELECT 1',
  note: null,
  shape: 'SELECT 1',
  transaction,
  explicit: true,
  startedAt: new Date(),
});
const done = { tag: 'SELECT 1', rows: 1, error: null, durationMs: 1 };
const failed = {
  ...done,
  error: new Map([
    ['C', '42P01'],
    ['M', 'no such table'],
  ]),
};
const ended = (transaction: number): Observed => ({
  type: 'transaction-end',
  session: 1,
  transaction,
  at: new Date(),
  outcome: 'committed',
  lost: false,
});

test('a transaction of a load command is counted once, with the first error of its statements', () => {
  const seen: EndedTransaction[] = [];
  const observe = transactionsInto({ add: (each) => seen.push(each) });
  const [first, second, other] = [statement(1, 1), statement(2, 1), statement(3, 2)];
  const events: Observed[] = [
    { type: 'begin', statement: first },
    { type: 'end', statement: first, outcome: done },
    { type: 'begin', statement: second },
    { type: 'end', statement: second, outcome: failed },
    ended(1),
    { type: 'begin', statement: other },
    { type: 'end', statement: other, outcome: done },
    ended(2),
  ];
  for (const event of events) observe(event);
  expect(seen.map(({ error }) => error?.sqlstate ?? null)).toEqual(['42P01', null]);
});
