import { afterAll, beforeAll, expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import type { TemporaryDatabase } from '../helpers/database.ts';
import { COMMITTING, HOLDING } from '../helpers/lock-corpus.ts';
import {
  heldInTransaction,
  heldOnTheWay,
  lockDatabase,
  type NamedLocks,
  reportedLocks,
  WAYS,
  wrongLocks,
} from '../helpers/lock-names.ts';

const VERSION = 18;
const LEAST = 0.99;
let template: TemporaryDatabase;
beforeAll(async () => {
  template = await lockDatabase(VERSION);
}, 60_000);
afterAll(() => template.drop());

test(
  'locks are reported by name, however statements are sent',
  async () => {
    const held = new Map<string, NamedLocks>();
    for (const sql of HOLDING) {
      const locks = await heldInTransaction(template, sql);
      if (locks) held.set(sql, locks);
    }
    const whole = await compare('held until the end of a transaction', held, wrongLocks.all);
    const onTheWay = new Map<string, NamedLocks>();
    for (const sql of COMMITTING) onTheWay.set(sql, await heldOnTheWay(template, sql, 10));
    const parts = await compare('of what commits within itself, seen or by rule', onTheWay, wrongLocks.seen);
    const share = (whole.right + parts.right) / (whole.statements + parts.statements);
    console.log(`${(100 * share).toFixed(2)} % of ${held.size + onTheWay.size} statements`);
    expect(held.size + onTheWay.size).toBeGreaterThanOrEqual(200);
    expect(share).toBeGreaterThanOrEqual(LEAST);
  },
  25 * 60_000,
);

async function compare(
  what: string,
  truth: ReadonlyMap<string, NamedLocks>,
  wrongIn: (expected: NamedLocks, reported: NamedLocks) => NamedLocks,
): Promise<{ statements: number; right: number }> {
  const notes: string[] = [];
  const rows: { sent: string; statements: number; right: number; share: string }[] = [];
  for (const [sent, send] of Object.entries(WAYS)) {
    let [statements, right] = [0, 0];
    for (const [sql, expected] of truth) {
      const reported = await reportedLocks(template, sql, send);
      // Some must be alone, and others must not be.
      if (!reported) continue;
      statements++;
      const wrong = wrongIn(expected, reported.locks ?? []);
      if (wrong.length === 0) right++;
      else notes.push(`${sent}: ${sql} (${reported.exactness}): ${wrong.join(', ')}`);
    }
    if (statements > 0)
      rows.push({ sent, statements, right, share: `${((100 * right) / statements).toFixed(1)} %` });
  }
  recordFigures(`names of locks ${what}, PostgreSQL ${VERSION}`, rows, notes);
  const sum = (figure: 'statements' | 'right') => rows.reduce((total, row) => total + row[figure], 0);
  return { statements: sum('statements'), right: sum('right') };
}
