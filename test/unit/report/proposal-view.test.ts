import { describe, expect, test } from 'vitest';
import type { Hazard, ProposalMeasures, ProposalSection, Report } from '../../../src/model/report.ts';
import { saferFormHint } from '../../../src/report/sections/hazards-view.ts';
import { proposalFigures, proposalWords } from '../../../src/report/sections/proposal-view.ts';
import { sampleReport } from '../../helpers/reports.ts';

const hazard = (code: string, more: Partial<Hazard> = {}): Hazard => ({
  code,
  severity: 'warning',
  statement: 1,
  relation: 'public.orders',
  message: '',
  evidence: '',
  advice: '',
  allowed: false,
  ...more,
});
const written = (code: string, more: Partial<Hazard> = {}) => hazard(code, { saferForm: 'default', ...more });
const asked = hazard('TYPE_CHANGE_REWRITES', { saferForm: 'asked' });
const hint = (...hazards: Hazard[]) => saferFormHint(sampleReport({ hazards }));

describe('that there may be a safer form is said', () => {
  test('with the option that writes it', () => {
    expect(
      hint(written('INDEX_NOT_CONCURRENT'), written('INDEX_NOT_CONCURRENT'), hazard('TABLE_DROPPED')),
    ).toBe(
      'Some of this has a safer form (INDEX_NOT_CONCURRENT): --propose out.sql writes it, if a second clone proves it',
    );
  });

  test('with --propose-all if only that writes it', () => {
    expect(hint(asked)).toMatch(/\(TYPE_CHANGE_REWRITES\): --propose out\.sql --propose-all writes it/);
    expect(hint(asked, written('CHECK_SCANS_TABLE'))).toMatch(
      /\(CHECK_SCANS_TABLE\): --propose out\.sql writes it, .*; with --propose-all that of TYPE_CHANGE_REWRITES, too/,
    );
  });

  test.each<[string, Partial<Report>]>([
    ['of what no script takes away', { hazards: [hazard('TABLE_DROPPED'), hazard('TYPE_CHANGE_REWRITES')] }],
    ['of notices', { hazards: [written('INDEX_NOT_CONCURRENT', { severity: 'notice' })] }],
    ['of what is allowed', { hazards: [written('INDEX_NOT_CONCURRENT', { allowed: true })] }],
  ])('not %s', (_what, sections) => {
    expect(saferFormHint(sampleReport(sections as object))).toBeNull();
  });
});

const measures = (more: Partial<ProposalMeasures>): ProposalMeasures => ({
  durationMs: 6900,
  readsBlockedMs: 6600,
  writesBlockedMs: 6600,
  walBytes: 100_000_000,
  diskBytes: 2e8,
  load: null,
  ...more,
});
const proved: ProposalSection = {
  outcome: 'proved',
  file: 'safer.sql',
  reasons: [],
  left: [],
  tolerated: [],
  changes: [{ statement: 1, codes: ['INDEX_NOT_CONCURRENT'], words: 'built while others write' }],
  tablesCompared: 2,
  tablesSkipped: 0,
  statements: [],
  transactions: [],
  original: measures({}),
  safer: measures({ durationMs: 9100, readsBlockedMs: 0, writesBlockedMs: 20, walBytes: 130_000_000 }),
};

test('a proved one is said in one line to cost less, and then in figures', () => {
  expect(proposalWords(proved)).toEqual([
    'safer.sql left the same schema and the same rows on a second clone: 2 tables compared',
    'reads are blocked for 0 ms instead of 6.6 s, writes are blocked for 20 ms instead of 6.6 s, it takes 9.1 s instead of 6.9 s, 1.3 times the WAL',
    'statement 1: built while others write (INDEX_NOT_CONCURRENT)',
  ]);
  expect(proposalFigures(proved)).toContainEqual(['total time', '6.9 s', '9.1 s']);
});

test('what was not measured is left out', () => {
  const unmeasured = { readsBlockedMs: null, walBytes: null };
  const words = proposalWords({
    ...proved,
    original: measures(unmeasured),
    safer: measures(unmeasured),
  });
  expect(words[1]).toBe('writes are blocked for 6.6 s instead of 6.6 s, it takes 6.9 s instead of 6.9 s');
});
