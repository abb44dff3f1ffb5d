import { expect, test } from 'vitest';
import { objectionToApply } from '../../../src/apply/apply-section.ts';
import type { Report } from '../../../src/model/report.ts';
import { facts, statement } from '../../helpers/facts.ts';

const objection = (sql: string, now: string, onDivergence: 'stop' | 'warn' = 'stop') => {
  const startedAt = '2026-11-23T22:00:00.000Z';
  const { statements } = facts({ statements: [{ ...statement(1, { sql }), startedAt }] });
  const schema = {} as NonNullable<Report['schema']>;
  const report = { verdict: { pass: true, reasons: [] }, hazards: [], schema, statements: [...statements] };
  return objectionToApply(report as unknown as Report, { onDivergence }, new Date(now));
};

const DATED = 'CREATE TABLE backup_20261123 (id int)';

test('a definition with the date of its rehearsal is refused once that day is over', () => {
  expect(objection(DATED, '2026-11-25T10:00:00Z')).toMatch(/statement 1 has the date of its rehearsal/);
  expect(objection(DATED, '2026-11-23T22:10:00Z')).toBeUndefined();
  expect(objection(DATED, '2026-11-25T10:00:00Z', 'warn')).toBeUndefined();
});

test.each(['CREATE TABLE backup_20261101 (id int)', "INSERT INTO t VALUES ('2026-11-23')"])(
  'not so %s',
  (sql) => {
    expect(objection(sql, '2026-11-25T10:00:00Z')).toBeUndefined();
  },
);
