import { describe, expect, test } from 'vitest';
import type { ModeSection, UpgradeObstacle } from '../../../src/model/upgrade-model.ts';
import { judgeUpgrade, recommend } from '../../../src/upgrade/judge-upgrade.ts';
import { initdbOptions } from '../../../src/upgrade/new-cluster.ts';
import { findObstacles } from '../../../src/upgrade/obstacles/find-obstacles.ts';
import type { UpgradeFacts } from '../../../src/upgrade/obstacles/obstacle-rule.ts';
import { longestSteps } from '../../../src/upgrade/pg-upgrade.ts';
import { complaintIn, endOf } from '../../../src/upgrade/sandboxed-programs.ts';
import { endOfFirstStage } from '../../../src/upgrade/use-upgraded.ts';

function mode(name: ModeSection['mode'], downtimeS: number | null): ModeSection {
  return {
    mode: name,
    outcome: downtimeS === null ? 'failed' : 'passed',
    reason: null,
    phases: [],
    downtimeMs: downtimeS === null ? null : downtimeS * 1000,
    peakBytes: null,
    wayBack: name === 'copy' || name === 'clone',
  };
}

const lines = (...said: [text: string, atMs: number][]) => ({
  exitCode: 0,
  durationMs: said.at(-1)?.[1] ?? 0,
  lines: said.map(([text, atMs]) => ({ text, atMs })),
});

describe('the mode that is recommended', () => {
  test.each<[string, [ModeSection['mode'], number | null][], number | null, ModeSection['mode'] | undefined]>(
    [
      [
        'has a way back if that costs little',
        [
          ['copy', 16],
          ['clone', 8],
          ['link', 6],
          ['swap', 5],
        ],
        null,
        'clone',
      ],
      [
        'has no way back if that costs much',
        [
          ['copy', 600],
          ['link', 30],
        ],
        null,
        'link',
      ],
      [
        'has no way back if users cannot wait',
        [
          ['copy', 16],
          ['clone', 8],
          ['link', 6],
        ],
        7000,
        'link',
      ],
      [
        'is the fastest if none is fast enough',
        [
          ['copy', 16],
          ['link', 6],
        ],
        1000,
        'link',
      ],
      [
        'is one that passed',
        [
          ['clone', null],
          ['link', 6],
        ],
        null,
        'link',
      ],
      ['is none if none passed', [['copy', null]], null, undefined],
    ],
  )('%s', (_, modes, maxDowntimeMs, expected) => {
    const found = recommend(
      modes.map(([name, downtime]) => mode(name, downtime)),
      maxDowntimeMs,
    );
    expect(found?.mode).toBe(expected);
  });
});

describe('the verdict', () => {
  const plan = { maxDowntimeMs: null };
  const obstacle: UpgradeObstacle = {
    code: 'X',
    severity: 'error',
    message: 'no',
    objects: [],
    count: 1,
    remedy: '',
    sql: [],
  };

  test('passes with modes that passed and obstacles that are no errors', () => {
    const findings = { check: { passed: true }, obstacles: [{ ...obstacle, severity: 'warning' as const }] };
    expect(judgeUpgrade({ ...findings, modes: [mode('link', 1)] }, plan).verdict.pass).toBe(true);
  });

  test.each([
    ['an obstacle', { check: { passed: true }, obstacles: [obstacle], modes: [mode('link', 1)] }, 'X: no'],
    [
      'a mode that failed',
      { check: { passed: true }, obstacles: [], modes: [mode('link', null)] },
      'pg_upgrade failed (--link)',
    ],
    ['no mode at all', { check: { passed: true }, obstacles: [], modes: [] }, 'no mode could be tried'],
  ])('does not pass for %s', (_, findings, reason) => {
    const { verdict } = judgeUpgrade(findings, plan);
    expect(verdict).toEqual({ pass: false, reasons: [expect.stringContaining(reason)] });
  });
});

describe('the verdict on an upgrade by a service', () => {
  const judge = (tried: ModeSection, maxDowntimeMs: number | null = null) =>
    judgeUpgrade({ check: null, modes: [tried], obstacles: [] }, { maxDowntimeMs });

  test('passes if it passed, without a choice', () => {
    expect(judge(mode('service', 600))).toEqual({
      recommendation: null,
      verdict: { pass: true, reasons: [] },
    });
  });

  test('fails if users may have to wait longer than they may', () => {
    expect(judge(mode('service', 600), 60_000).verdict.reasons).toEqual([
      'users would wait 10 min 0 s at most, longer than 1 min 0 s (--limit downtime)',
    ]);
  });

  test("fails in the service's words", () => {
    const failed = { ...mode('service', null), reason: 'Amazon RDS did not upgrade the clone' };
    expect(judge(failed).verdict.reasons).toEqual(['Amazon RDS did not upgrade the clone']);
  });
});

test('the longest steps of pg_upgrade are listed in their order, by what it wrote last on a line', () => {
  const run = lines(
    ['Performing Consistency Checks', 5],
    ['Checking cluster versions                                     ok', 10],
    ['Restoring database schemas in the new cluster', 100],
    ['  template1\r  app                                \r                         ok', 900],
    ['Copying user relation files', 901],
  );
  expect(longestSteps(run).map(({ name }) => name)).toEqual(['Checking cluster versions']);
  expect(longestSteps(run)[0]?.durationMs).toBe(5);
});

test('the first stage of the statistics ends when vacuumdb begins the second one', () => {
  const stage = (database: string, targets: string) =>
    `vacuumdb: processing database "${database}": Generating statistics (${targets})`;
  expect(
    endOfFirstStage(
      lines(
        [stage('a', '1 target'), 1],
        [stage('b', '1 target'), 40],
        [stage('a', '10 targets'), 70],
        ['', 99],
      ),
    ),
  ).toBe(70);
  expect(endOfFirstStage(lines(['nothing to do', 12]))).toBe(12);
});

describe('initdb', () => {
  const facts = {
    superuser: 'postgres',
    checksums: false,
    walSegmentBytes: 2 ** 26,
    encoding: 'UTF8',
    provider: 'c',
    collate: 'C',
    ctype: 'de_DE.UTF-8',
    locale: null,
    databases: [],
  };

  test('makes a cluster without checksums as each version does', () => {
    expect(initdbOptions(facts, 18)).toContain('--no-data-checksums');
    expect(initdbOptions(facts, 17).join()).not.toContain('checksums');
    expect(initdbOptions({ ...facts, checksums: true }, 17)).toContain('--data-checksums');
  });

  test('makes one with the locales, the provider and the WAL segments of the old one', () => {
    const words = initdbOptions({ ...facts, provider: 'i', locale: 'de-AT' }, 18);
    expect(words).toEqual(
      expect.arrayContaining(['--locale-provider=icu', '--icu-locale=de-AT', '--wal-segsize=64']),
    );
    expect(words).toEqual(
      expect.arrayContaining(['--lc-collate=C', '--lc-ctype=de_DE.UTF-8', '--encoding=UTF8']),
    );
  });
});

describe('what a program said of its failure', () => {
  const LOG = `command: "/usr/lib/postgresql/18/bin/pg_restore" …

pg_restore: connecting to database for restore
pg_restore: creating TABLE "public.action_set_events"
pg_restore: while PROCESSING TOC:
pg_restore: from TOC entry 227; 1259 16390 TABLE action_set_events postgres
pg_restore: error: could not execute query: ERROR:  unrecognized parameter "pg_attver"
Command was:
-- For binary upgrade, must preserve pg_type oid
SELECT pg_catalog.binary_upgrade_set_next_pg_type_oid('16392'::pg_catalog.oid);
${'ALTER TABLE ONLY "public"."action_set_events" ALTER COLUMN "action_set_id" SET (pg_attver=26498872);\n'.repeat(40)}`;

  test('is the error, not the end of the statement that failed', () => {
    expect(complaintIn(LOG.split('\n'))).toBe(
      'pg_restore: error: could not execute query: ERROR:  unrecognized parameter "pg_attver"',
    );
  });

  test('is in one line, with the hint', () => {
    const lines = [
      'creating directory … ok',
      'initdb: error: invalid locale name "xx"',
      'initdb: hint: use another',
    ];
    expect(endOf({ lines: lines.map((text) => ({ text, atMs: 0 })) })).toBe(
      'initdb: error: invalid locale name "xx"; initdb: hint: use another',
    );
  });

  test('is the end if nothing is called an error', () => {
    expect(complaintIn(['one', '', 'two'])).toBe('one; two');
  });
});

describe('the obstacles', () => {
  const facts: UpgradeFacts = {
    from: 15,
    to: 18,
    releases: { from: '15.20', to: '18.6' },
    target: { slots: [], standbys: [], tablespacesInside: [], loginMethods: null },
    initdbRefusal: null,
    application: null,
    installed: {
      icu: true,
      absentLibraries: new Set(['$libdir/postgis-3', '$libdir/own']),
      reserved: new Set(),
      settings: new Map(),
      extensions: new Map([['hstore', '1.8']]),
      columnOptions: new Set(['new_own']),
    },
    rows: new Map(),
    files: new Map(),
    refusal: [],
    modes: [],
    ownSettings: new Map(),
    missingLibraries: [],
  };
  const codes = (more: Partial<UpgradeFacts>) => findObstacles({ ...facts, ...more }).map(({ code }) => code);

  test('are none of a cluster that has none', () => {
    expect(codes({})).toEqual([]);
  });

  // Those of one day: 14.20, 15.15, 16.11, 17.7 and 18.1; 18.0 came between two of them.
  test.each([
    ['15.20', '18.6', []],
    ['15.20', '18.4', ['15.20 → 18.4']],
    ['14.20', '17.7', []],
    ['16.11', '18.0', ['16.11 → 18.0']],
    ['17.6', '18.0', []],
    ['15.1 (Debian 15.1-1)', '16.0', []],
    ['14.20', '15.14', ['14.20 → 15.14']],
    ['18.1', '19.0', []],
  ])('name a new version whose minor release is older: %s to %s', (from, to, objects) => {
    const found = findObstacles({ ...facts, releases: { from, to } });
    expect(found.flatMap((each) => (each.code === 'MINOR_RELEASE_OLDER' ? each.objects : []))).toEqual(
      objects,
    );
  });

  test('take an older minor release for an error once the upgrade failed with it', () => {
    const releases = { from: '15.20', to: '18.4' };
    const mode = { mode: 'copy' as const, phases: [], downtimeMs: null, peakBytes: null, wayBack: true };
    const severity = (outcome: 'passed' | 'failed') =>
      findObstacles({ ...facts, releases, modes: [{ ...mode, outcome, reason: null }] })[0]?.severity;
    expect([severity('passed'), severity('failed')]).toEqual(['warning', 'error']);
  });

  test('name options of columns that the new version does not know, once', () => {
    const names = ['n_distinct', 'new_own', 'pg_attver', 'pg_attver'];
    const rows = new Map([['COLUMN_OPTION_UNKNOWN', names.map((object) => ({ object }))]]);
    expect(findObstacles({ ...facts, rows })).toMatchObject([
      { code: 'COLUMN_OPTION_UNKNOWN', severity: 'error', objects: ['pg_attver'] },
    ]);
  });

  test('name extensions that are missing, and those with newer versions', () => {
    const rows = new Map([
      ['EXTENSION_MISSING', [{ object: 'postgis|3.4|app' }, { object: 'hstore|1.7|app' }]],
    ]);
    expect(findObstacles({ ...facts, rows })).toMatchObject([
      { code: 'EXTENSION_MISSING', objects: ['app: postgis 3.4'] },
      {
        code: 'EXTENSION_UPDATE',
        objects: ['app: hstore 1.7 (there: 1.8)'],
        sql: ['ALTER EXTENSION "hstore" UPDATE;'],
      },
    ]);
  });

  test('have what pg_upgrade alone found', () => {
    const files = new Map([['tables_using_composite.txt', ['In database: app', '  public.odd.class']]]);
    expect(codes({ files })).toEqual(['SYSTEM_TYPE_COLUMN']);
  });

  test('have what pg_upgrade said of a refusal that no rule explains, and only then', () => {
    const refusal = ['Checking cluster versions', 'old and new pg_controldata block sizes are invalid'];
    expect(findObstacles({ ...facts, refusal })).toMatchObject([
      { code: 'REFUSED_OTHERWISE', severity: 'error', objects: refusal },
    ]);
    const rows = new Map([['DATABASE_CLOSED', [{ object: 'app' }]]]);
    expect(codes({ refusal, rows })).toEqual(['DATABASE_CLOSED']);
  });

  test('name libraries unless their extension is missing', () => {
    const uses = [
      { object: '$libdir/postgis-3|postgis|app: extension postgis' },
      { object: '$libdir/own||app: own(integer)', sql: 'DROP FUNCTION own(integer);' },
      { object: '$libdir/there||app: there()', sql: 'DROP FUNCTION there();' },
    ];
    const rows = new Map([
      ['EXTENSION_MISSING', [{ object: 'postgis|3.4|app' }]],
      ['LIBRARY_MISSING', uses],
    ]);
    const said = ['own', 'broken'].map((name) => `could not load library "$libdir/${name}": ERROR: …`);
    const files = new Map([['loadable_libraries.txt', [...said, 'In database: app']]]);
    expect(findObstacles({ ...facts, rows, files, missingLibraries: ['pg_cron'] })).toMatchObject([
      { code: 'EXTENSION_MISSING', objects: ['app: postgis 3.4'] },
      {
        code: 'LIBRARY_MISSING',
        objects: [
          ...['pg_cron, of shared_preload_libraries', 'app: own(integer) needs $libdir/own'],
          '$libdir/broken',
        ],
        sql: ['DROP FUNCTION own(integer);'],
      },
    ]);
  });

  test('concern the versions that they belong to', () => {
    const target = { ...facts.target, slots: [{ name: 'feed', type: 'logical', database: 'app' }] };
    expect(codes({ target })).toEqual(['SLOT_LOST']);
    expect(codes({ target, from: 17 })).toEqual(['SLOT_MUST_BE_READ']);
  });

  test('have settings that are gone, but not those that were renamed or belong to extensions', () => {
    const names = ['old_snapshot_threshold', 'force_parallel_mode', 'app.tenant', 'work_mem'];
    const ownSettings = new Map(names.map((name) => [name, '1']));
    const installed = { ...facts.installed, settings: new Map([['work_mem', '4096']]) };
    expect(findObstacles({ ...facts, ownSettings, installed })).toMatchObject([
      { code: 'SETTING_GONE', objects: ['old_snapshot_threshold'] },
    ]);
  });

  test('have string literals that are not standard from 19 on', () => {
    const name = 'standard_conforming_strings';
    const installed = { ...facts.installed, settings: new Map([[name, 'on']]) };
    const gone = (to: number, value: string) =>
      findObstacles({ ...facts, to, installed, ownSettings: new Map([[name, value]]) })
        .filter(({ code }) => code === 'SETTING_GONE')
        .flatMap(({ objects }) => objects);
    expect([gone(18, 'off'), gone(19, 'on'), gone(19, 'off')]).toEqual([[], [], [`${name} = off`]]);
  });
});
