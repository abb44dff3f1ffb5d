import { describe, expect, test } from 'vitest';
import { budgetReasons, type Spent } from '../../../src/hazards/budgets.ts';
import { applyPolicy, hazardObjections } from '../../../src/hazards/policy.ts';
import { DEFAULT_POLICY, type Policy } from '../../../src/hazards/policy-settings.ts';
import type { Hazard } from '../../../src/model/report.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const TODAY = '2026-11-21';
const hazard = (more: Partial<Hazard> = {}): Hazard => ({
  code: 'REWRITE',
  severity: 'error',
  statement: 2,
  relation: 'public.orders',
  message: 'The whole table is written again.',
  evidence: '18 GB.',
  advice: '',
  allowed: false,
  ...more,
});
const policy = (more: Partial<Policy> = {}): Policy => ({ ...DEFAULT_POLICY, ...more });
const refusals = (hazards: Hazard[], by: Policy) =>
  hazardObjections(applyPolicy(hazards, by, TODAY), by, TODAY).map(({ sentence }) => sentence);

describe('hazards', () => {
  test('hazards of severity error fail by default, each with the flag that would allow it', () => {
    const found = [hazard(), hazard({ severity: 'warning' }), hazard({ code: 'DATA_LOSS', relation: null })];
    expect(refusals(found, policy())).toEqual([
      `REWRITE on public.orders: The whole table is written again; to accept it: --accept 'REWRITE:public.orders="…"'`,
      `DATA_LOSS: The whole table is written again; to accept it: --accept 'DATA_LOSS="…"'`,
    ]);
  });

  test('hazards of severity warning fail if the policy says so, notices never', () => {
    const found = [hazard({ severity: 'warning' }), hazard({ severity: 'notice' })];
    expect(refusals(found, policy())).toEqual([]);
    expect(refusals(found, policy({ failOn: 'warning' }))).toHaveLength(1);
  });

  test.each<[string, Policy['accept'][number], boolean]>([
    ['everywhere', { code: 'REWRITE', reason: 'ok' }, true],
    ['on this relation', { code: 'REWRITE', relation: 'public.orders', reason: 'ok' }, true],
    ['on a relation of this name', { code: 'REWRITE', relation: 'orders', reason: 'ok' }, true],
    ['on another relation', { code: 'REWRITE', relation: 'public.items', reason: 'ok' }, false],
    ['of another kind', { code: 'REWRITES', reason: 'ok' }, false],
    ['until yesterday', { code: 'REWRITE', reason: 'ok', until: '2026-11-20' }, false],
    ['until today', { code: 'REWRITE', reason: 'ok', until: TODAY }, true],
  ])('a hazard that is allowed %s', (_, allowance, allowed) => {
    const by = policy({ accept: [allowance] });
    expect(applyPolicy([hazard()], by, TODAY)[0]?.allowed).toBe(allowed);
    expect(refusals([hazard()], by)).toHaveLength(allowed ? 0 : 1);
  });

  test('hazards that are allowed give the reason', () => {
    const by = policy({ accept: [{ code: 'REWRITE', reason: 'agreed with ops', until: '2027-01-31' }] });
    expect(applyPolicy([hazard()], by, TODAY)[0]?.evidence).toBe(
      '18 GB. Allowed until 2027-01-31: agreed with ops.',
    );
  });

  test('hazards whose allowance has expired say since when', () => {
    const by = policy({ accept: [{ code: 'REWRITE', reason: 'agreed with ops', until: '2026-10-31' }] });
    expect(refusals([hazard()], by)[0]).toContain(
      'the allowance until 2026-10-31 ("agreed with ops") has expired',
    );
  });

  test('hazards on relations with quotes in their names have a flag that is quoted for a shell', () => {
    expect(refusals([hazard({ relation: `public."Bob's"` })], policy())[0]).toContain(
      `--accept 'REWRITE:public."Bob'\\''s"="…"'`,
    );
  });
});

const { rewrite } = sampleReports;
const spent = (more: Partial<Spent> = {}): Spent => ({ ...(rewrite ?? sampleReport()), ...more });

describe('a budget', () => {
  test('a budget that is kept or not set gives no reason', () => {
    const kept = { maxDurationMs: 3_600_000, maxWalBytes: 2 ** 40, maxLocks: [] };
    expect(budgetReasons(spent(), policy(kept))).toEqual([]);
    expect(budgetReasons(spent(), policy())).toEqual([]);
  });

  test('a budget of time or WAL that is exceeded says by how much, and which flag would allow it', () => {
    expect(budgetReasons(spent(), policy({ maxDurationMs: 60_000, maxWalBytes: 2 ** 30 }))).toEqual([
      'the command took 4 min 12 s, but the limit is 1 min 0 s; to allow it: --limit duration=5m',
      'the command wrote 20 GB of WAL, but the limit is 1 GB; to allow it: --limit wal=20GB',
    ]);
  });

  test("a budget of a lock mode applies to the longest lock, and a relation's own one takes precedence", () => {
    const general = { mode: 'ACCESS EXCLUSIVE', maxMs: 500 } as const;
    expect(budgetReasons(spent(), policy({ maxLocks: [general] }))).toEqual([
      'ACCESS EXCLUSIVE on public.events (statement 2) was held for 4 min 2 s, but the limit is 500 ms; ' +
        "to allow it: --limit 'lock=public.events:ACCESS EXCLUSIVE=5m'",
    ]);
    const own = { ...general, relation: 'public.events', maxMs: 300_000 };
    expect(budgetReasons(spent(), policy({ maxLocks: [general, own] }))).toEqual([]);
  });

  test('a budget of a lock counts as exceeded if the times are not known', () => {
    const caveats = [
      { path: 'statements[].durationMs', kind: 'unmeasured', reason: 'they disagree' },
    ] as const;
    const maxLocks = [{ mode: 'ACCESS EXCLUSIVE', maxMs: 3_600_000 }] as const;
    expect(budgetReasons(spent({ caveats }), policy({ maxLocks }))).toEqual([
      '--limit lock counts as exceeded: they disagree',
    ]);
  });

  test('a budget that could not be measured counts as exceeded', () => {
    const unseen = spent({
      data: null,
      statements: [],
      caveats: [{ path: 'statements', kind: 'unmeasured', reason: 'statements were not observed' }],
    });
    const limits = { maxWalBytes: 1, maxDiskBytes: 1, maxLocks: [{ mode: 'SHARE', maxMs: 1 }] } as const;
    expect(budgetReasons(unseen, policy(limits))).toEqual([
      '--limit lock counts as exceeded: statements were not observed',
      'the WAL that the command writes could not be measured, so --limit wal counts as exceeded',
      'the disk space needed could not be measured, so --limit disk counts as exceeded',
    ]);
  });

  test('a budget of locks ignores relations that the command created', () => {
    const made = {
      verb: 'create',
      kind: 'table',
      object: 'public.events',
      sql: '',
      dataLoss: false,
    } as const;
    const limit = { mode: 'ACCESS EXCLUSIVE', maxMs: 1 } as const;
    expect(budgetReasons(spent({ schema: { changes: [made] } }), policy({ maxLocks: [limit] }))).toEqual([]);
  });
});
