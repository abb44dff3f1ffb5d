import { describe, expect, test } from 'vitest';
import { HazardContext } from '../../../src/hazards/hazard-context.ts';
import { QUERIES } from '../../../src/hazards/kinds/queries.ts';
import { NO_EFFECTS } from '../../../src/model/effect-facts.ts';
import { type HazardFacts, NO_DEFINITIONS } from '../../../src/model/hazard-facts.ts';
import type { QueriesSection } from '../../../src/model/report.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const { queries } = sampleReports.asked ?? sampleReport();

function found(section: QueriesSection | null) {
  const facts: HazardFacts = {
    ...sampleReport({ statements: [], transactions: [] }),
    queries: section,
    parsed: new Map(),
    sessionsWithLockTimeout: new Set(),
    sessionsOfPsql: new Set(),
    rerun: null,
    traffic: null,
    catalogue: {
      relations: new Map(),
      renamed: new Map(),
      checks: [],
      unindexedForeignKeys: new Map(),
      dropped: new Map(),
      definitions: NO_DEFINITIONS,
      effects: NO_EFFECTS,
      searchPath: ['public'],
      lockTimeoutByDefault: false,
      actsOnServer: [],
      leftPrepared: [],
      identityLost: [],
      orphans: [],
    },
  };
  return QUERIES.flatMap(({ code, find }) =>
    find(new HazardContext(facts)).map((finding) => ({ code, ...finding })),
  );
}

function broken(callsPerSecond: number | null): QueriesSection | null {
  return (
    queries && {
      ...queries,
      slower: [],
      broken: queries.broken.map((query) => ({ ...query, callsPerSecond })),
    }
  );
}

describe('hazards of queries', () => {
  test('queries are no hazard if none broke or slowed down, or none was tried', () => {
    expect(found(null)).toEqual([]);
    expect(found(queries && { ...queries, broken: [], slower: [] })).toEqual([]);
  });

  test('all broken queries are one hazard, all slower ones another, with their rates', () => {
    expect(found(queries)).toMatchObject([
      {
        code: 'QUERY_BREAKS',
        severity: 'error',
        message: expect.stringMatching(
          /^2 queries .* no longer work: SELECT id, legacy_code FROM .*42 calls\/s/,
        ),
        evidence: expect.stringContaining('counted since 2026-03-01'),
      },
      {
        code: 'QUERY_SLOWER',
        severity: 'warning',
        message: expect.stringContaining(
          'cost 8 → 41,878, Index Scan using orders_customer_id_idx on orders → Seq Scan',
        ),
      },
    ]);
  });

  test('a query that is slower only until its table is analyzed is a notice with the ANALYZE', () => {
    const slower = queries?.slower.map((query) => ({ ...query, untilAnalyzed: ['public.orders'] })) ?? [];
    expect(found(queries && { ...queries, broken: [], slower })).toMatchObject([
      {
        code: 'QUERY_SLOWER',
        severity: 'notice',
        message: expect.stringContaining('until public.orders is analyzed'),
        advice: expect.stringContaining('ANALYZE public.orders;'),
      },
    ]);
  });

  test('a broken query is a warning if it is sent less than once an hour, an error if nobody counted it', () => {
    expect(found(broken(1 / 4000))).toMatchObject([{ severity: 'warning' }]);
    expect(found(broken(1 / 3000))).toMatchObject([{ severity: 'error' }]);
    expect(found(broken(null))).toMatchObject([{ severity: 'error' }]);
  });
});
