import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { recordFigures } from '../bench/figures.ts';
import type { TemporaryDatabase } from '../helpers/database.ts';
import { COMMITTING, COMMITTING_SINCE_19, HOLDING } from '../helpers/lock-corpus.ts';
import {
  heldInTransaction,
  heldOnTheWay,
  lockDatabase,
  type NamedLocks,
  reportedLocks,
  WAYS,
  wrongLocks,
} from '../helpers/lock-names.ts';

const LEAST = 0.99;

/**
 * VACUUM truncates only what has empty pages at its end. From 19 on CLUSTER locks the partitioned index that it names, whose table it
 * has locked as strongly.
 */
const WITHOUT_RULE = /^(?:vacuum|cluster) parted\b/;

describe.each([18, 19] as const)('PostgreSQL %d', (version) => {
  let template: TemporaryDatabase;
  beforeAll(async () => {
    template = await lockDatabase(version);
  }, 60_000);
  afterAll(() => template.drop());

  test('locks of a transaction are reported by name, however statements are sent', {
    timeout: 1_500_000,
  }, async () => {
    const held = new Map<string, NamedLocks>();
    for (const sql of HOLDING) {
      const locks = await heldInTransaction(template, sql);
      if (locks) held.set(sql, locks);
    }
    const { statements, wrong } = await compare('held until the end of a transaction', held, wrongLocks.all);
    expect(held.size).toBeGreaterThanOrEqual(200);
    expect(1 - wrong.length / statements).toBeGreaterThanOrEqual(LEAST);
  });

  test('locks of what commits within itself are seen, or known by rule', { timeout: 1_500_000 }, async () => {
    const onTheWay = new Map<string, NamedLocks>();
    const committing = version === 18 ? COMMITTING : [...COMMITTING, ...COMMITTING_SINCE_19];
    for (const sql of committing) onTheWay.set(sql, await heldOnTheWay(template, sql, 10));
    const { wrong } = await compare(
      'of what commits within itself, seen or by rule',
      onTheWay,
      wrongLocks.seen,
    );
    expect(wrong.filter((sql) => !WITHOUT_RULE.test(sql))).toEqual([]);
  });

  async function compare(
    what: string,
    truth: ReadonlyMap<string, NamedLocks>,
    wrongIn: (expected: NamedLocks, reported: NamedLocks) => NamedLocks,
  ): Promise<{ statements: number; wrong: string[] }> {
    const wrongOnes: string[] = [];
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
        else {
          wrongOnes.push(sql);
          notes.push(`${sent}: ${sql} (${reported.exactness}): ${wrong.join(', ')}`);
        }
      }
      if (statements > 0)
        rows.push({ sent, statements, right, share: `${((100 * right) / statements).toFixed(1)} %` });
    }
    recordFigures(`names of locks ${what}, PostgreSQL ${version}`, rows, notes);
    return { statements: rows.reduce((total, row) => total + row.statements, 0), wrong: wrongOnes };
  }
});
