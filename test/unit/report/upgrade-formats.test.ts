import { describe, expect, test } from 'vitest';
import { type UpgradeReport, upgradeReport } from '../../../src/model/upgrade-model.ts';
import { renderUpgrade } from '../../../src/report/render.ts';
import { serverError } from '../../helpers/facts.ts';

const STYLE = { columns: 100, colour: false, unicode: true };
const HOSTILE = '<script>alert(1)</script> | `x` ]]>';

const phase = (
  name: UpgradeReport['modes'][number]['phases'][number]['name'],
  ms: number,
  down: boolean,
) => ({
  name,
  durationMs: ms,
  down,
  steps: name === 'pg_upgrade' ? [{ name: 'Copying user relation files', durationMs: ms / 2 }] : [],
});

const error = serverError('42P07', { message: `exists ${HOSTILE}` });

const statement = (index: number, failure: object | null) => ({
  index,
  session: 1,
  sql: `ALTER TABLE t /* ${HOSTILE} */ ADD COLUMN c int`,
  tag: 'ALTER TABLE',
  startedAt: '2026-11-23T10:00:40.000Z',
  durationMs: 12,
  rows: null,
  transaction: index,
  explicit: false,
  exactness: 'exact',
  error: failure,
  rewrote: [],
  walBytes: 1024,
  locks: [
    {
      relation: 'public.t',
      mode: 'ACCESS EXCLUSIVE',
      acquiredBy: 'x',
      heldMs: 11,
      blocks: ['reads', 'writes'],
    },
  ],
});

/** Parsed, so that it stays what the model says. */
const REPORT = upgradeReport.parse({
  version: 1,
  run: {
    id: 'r1',
    startedAt: '2026-11-23T10:00:00.000Z',
    finishedAt: '2026-11-23T10:01:00.000Z',
    mode: 'upgrade',
    tool: { name: 'safemigrate', version: '0.2.0' },
  },
  target: {
    host: 'db',
    port: 5432,
    database: 'shop',
    source: '--url',
    databases: 4,
    sizeBytes: 2 ** 30,
    touched: ['a checkpoint'],
  },
  clone: { strategy: 'reflink', containment: 'sandbox', durationMs: 3000, reason: 'it shares blocks' },
  from: { major: 15, version: '15.18', programs: '/usr/lib/postgresql/15/bin' },
  to: { major: 18, version: '18.6', programs: '/usr/lib/postgresql/18/bin' },
  check: { passed: true, durationMs: 900, output: [] },
  obstacles: [
    {
      code: 'QUERY_BREAKS',
      severity: 'error',
      message: 'queries fail on the new one',
      objects: [HOSTILE],
      count: 3,
      remedy: 'release another application',
      sql: [`SELECT '${HOSTILE}';`, 'SELECT 2;'],
    },
    {
      code: 'CHECKSUMS_OFF',
      severity: 'notice',
      message: 'no checksums',
      objects: ['the cluster'],
      count: 1,
      remedy: 'know it',
      sql: [],
    },
  ],
  modes: [
    {
      mode: 'clone',
      outcome: 'passed',
      reason: null,
      downtimeMs: 3100,
      peakBytes: 4e7,
      wayBack: true,
      phases: [
        phase('initdb', 1200, false),
        phase('pg_upgrade', 2900, true),
        phase('start', 200, true),
        phase('statistics', 300, false),
      ],
    },
    {
      mode: 'link',
      outcome: 'passed',
      reason: null,
      downtimeMs: 2500,
      peakBytes: null,
      wayBack: false,
      phases: [phase('pg_upgrade', 2400, true), phase('start', 100, true)],
    },
    {
      mode: 'swap',
      outcome: 'failed',
      reason: HOSTILE,
      phases: [],
      downtimeMs: null,
      peakBytes: null,
      wayBack: false,
    },
  ],
  command: {
    argv: ['sh', HOSTILE],
    exitCode: 0,
    durationMs: 120,
    transactions: [],
    statements: [statement(1, null), statement(2, error)],
  },
  application: { mode: 'clone', queries: null, checks: [], schemaChanges: [], unmodeled: [] },
  recommendation: { mode: 'clone', reason: 'it leaves the old cluster as it was' },
  carriesStatistics: true,
  caveats: [{ path: 'modes', kind: 'estimate', reason: `about ${HOSTILE}` }],
  verdict: {
    pass: false,
    reasons: ['QUERY_BREAKS: queries fail on the new one', 'pg_upgrade --swap failed'],
  },
  cleanup: { done: [], failed: [] },
});

/** Of an upgrade by a service, which has one mode, and neither programs nor a disk. */
const BY_SERVICE = upgradeReport.parse({
  ...REPORT,
  clone: {
    strategy: 'restore',
    containment: 'other-server',
    durationMs: 900_000,
    reason: 'made by Amazon RDS',
    service: { name: 'Amazon RDS', instance: 'db.r6g.large', asOf: null, readsLazily: true },
  },
  from: { major: 17, version: '17.2', programs: null },
  to: { major: 18, version: '18.1', programs: null },
  check: null,
  obstacles: [],
  modes: [
    {
      mode: 'service',
      outcome: 'passed',
      reason: null,
      downtimeMs: 600_120,
      peakBytes: null,
      wayBack: false,
      phases: [
        phase('service', 600_000, true),
        phase('statistics', 30_000, false),
        phase('command', 120, true),
      ],
    },
  ],
  application: { mode: 'service', queries: null, checks: [], schemaChanges: [], unmodeled: [] },
  recommendation: null,
  caveats: [{ path: 'modes[].downtimeMs', kind: 'estimate', reason: 'an upper bound' }],
  verdict: { pass: true, reasons: [] },
});

describe('the report of an upgrade', () => {
  test.each(['text', 'markdown', 'html', 'junit'] as const)(
    'as %s has the verdict, each mode and each obstacle',
    async (format) => {
      const text = await renderUpgrade(REPORT, format, STYLE);
      for (const word of [
        'QUERY_BREAKS',
        'CHECKSUMS_OFF',
        'clone',
        'link',
        'swap',
        'release another application',
      ])
        expect(text).toContain(word);
      const ending = { text: 'txt', markdown: 'md', junit: 'xml', html: null }[format];
      if (ending !== null) await expect(text).toMatchFileSnapshot(`snapshots/upgrade.${ending}`);
    },
  );

  test.each(['text', 'markdown', 'junit', 'html'] as const)(
    'by a service as %s leaves out what a service does not tell',
    async (format) => {
      const text = await renderUpgrade(BY_SERVICE, format, STYLE);
      expect(text).toContain('users would wait at most');
      expect(text).toContain('the upgrade by Amazon RDS');
      expect(text).not.toContain('pg_upgrade');
      const ending = { text: 'txt', markdown: 'md', junit: 'xml', html: null }[format];
      if (ending !== null) await expect(text).toMatchFileSnapshot(`snapshots/upgrade-by-service.${ending}`);
    },
  );

  test('runs nothing that a name, a query or a message holds', async () => {
    expect(await renderUpgrade(REPORT, 'html', STYLE)).not.toContain('<script>alert');
    expect(await renderUpgrade(REPORT, 'junit', STYLE)).not.toContain('<script>alert');
    const fenced = (await renderUpgrade(REPORT, 'markdown', STYLE)).replace(/```sql[\s\S]*?```|``.*?``/g, '');
    expect(fenced).not.toContain('<script>alert');
  });

  test('as JUnit fails the verdict, modes that failed, and obstacles that are errors', async () => {
    const text = await renderUpgrade(REPORT, 'junit', STYLE);
    expect(text).toMatch(/<testsuites tests="6" failures="3"/);
  });

  test('says of a version that gets no fixes any more why to leave it', async () => {
    const shown = (version: string) =>
      renderUpgrade({ ...REPORT, from: { ...REPORT.from, version } }, 'text', STYLE);
    expect(await shown('14.24')).toContain('Why      PostgreSQL 14 has had no fixes since 2026-11-12');
    expect(await shown('15.18')).not.toContain('no fixes');
  });
});
