import { expect, test } from 'vitest';
import { findHazards } from '../../../src/hazards/catalogue.ts';
import type { HazardFacts } from '../../../src/model/hazard-facts.ts';
import type { StatementSection } from '../../../src/model/report.ts';
import type { Action } from '../../../src/model/statement-actions.ts';
import { asking, facts, statement } from '../../helpers/facts.ts';

const timeout = (ms: number): Action => ({ does: 'set statement_timeout', off: false, local: false, ms });
const OFF: Action = { does: 'set statement_timeout', off: true, local: false };

/** Findings for an UPDATE of 600 ms after a statement that may set a timeout. */
function found(
  { setting, ...given }: Partial<HazardFacts> & { setting?: Action },
  update: Partial<Pick<StatementSection, 'atProductionSize' | 'repeated' | 'error'>> = {},
  byRole = 0,
): string[] {
  return findHazards(
    facts({
      statements: [
        statement(1, { tag: 'SET' }),
        statement(2, { tag: 'UPDATE', durationMs: update.atProductionSize?.ms ?? 600, ...update }),
      ],
      parsed: asking({ 1: setting ? [setting] : [], 2: [] }),
      catalogue: { statementTimeoutMs: byRole },
      ...given,
    }),
  )
    .filter(({ code }) => code === 'STATEMENT_TIMEOUT_TOO_SHORT')
    .map(({ severity, message }) => `${severity}: ${message}`);
}

const NEAR = ['warning: the statement takes 600 ms, and statement_timeout is 1.0 s'];

test('a statement that takes more than half of its statement_timeout is a warning, whoever has set that', () => {
  expect(found({ setting: timeout(1_000) })).toEqual(NEAR);
  expect(found({ statementTimeouts: new Map([[1, 1_000]]) })).toEqual(NEAR);
  expect(found({}, {}, 1_000)).toEqual(NEAR);
});

test('none is found with a longer timeout, without one, or once it is switched off', () => {
  expect(found({ setting: timeout(1_200) })).toEqual([]);
  expect(found({})).toEqual([]);
  expect(found({ setting: OFF }, {}, 1_000)).toEqual([]);
  expect(found({ statementTimeouts: new Map([[1, 0]]) }, {}, 1_000)).toEqual([]);
});

test("an estimate at production's size that is longer than the timeout is an error", () => {
  const sized = (lowMs: number) => ({
    atProductionSize: { ms: 2 * lowMs, lowMs, highMs: 4 * lowMs, basis: 'measured rate' as const },
  });
  expect(found({}, sized(1_100), 1_000)).toEqual([expect.stringMatching(/^error: /)]);
  expect(found({}, sized(900), 1_000)).toEqual([expect.stringMatching(/^warning: /)]);
});

test('of statements that are alike the longest counts, not their sum', () => {
  const repeated = (maxMs: number) => ({
    repeated: {
      count: 100,
      transactions: 100,
      alike: true,
      minMs: 1,
      meanMs: 6,
      maxMs,
      p99Ms: maxMs,
      lastIndex: 101,
      lastStartedAt: '2026-03-14T02:11:09.500Z',
    },
  });
  expect(found({}, repeated(400), 1_000)).toEqual([]);
  expect(found({}, repeated(700), 1_000)).toEqual([
    'warning: the statement takes 700 ms, and statement_timeout is 1.0 s',
  ]);
});
