import { describe, expect, test } from 'vitest';
import type { Report } from '../../../src/model/report.ts';
import { renderJunit } from '../../../src/report/junit.ts';
import { renderOpenMetrics } from '../../../src/report/openmetrics.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const SAMPLES = Object.entries(sampleReports);

function sample(name: string): Report {
  const report = sampleReports[name];
  if (!report) throw new Error(`there is no sample ${name}`);
  return report;
}

/** Elements that are opened and closed in order; enough of XML for what we write. */
function wellFormed(xml: string): boolean {
  const open: string[] = [];
  for (const [, end, name = '', attributes = '', empty] of xml.matchAll(
    /<(\/?)([a-z-]+)((?:\s[a-z]+="[^"<]*")*)\s*(\/?)>/g,
  )) {
    if (/&(?!amp;|lt;|gt;|quot;|apos;)/.test(attributes)) return false;
    if (end) {
      if (open.pop() !== name) return false;
    } else if (!empty) open.push(name);
  }
  return open.length === 0;
}

/** What the JUnit XML says of itself, and what it holds. */
function countsOf(xml: string) {
  const said = (element: string, attribute: string) =>
    [...xml.matchAll(new RegExp(`<${element} [^>]*\\b${attribute}="(\\d+)"`, 'g'))].reduce(
      (sum, [, count]) => sum + Number(count),
      0,
    );
  return {
    tests: xml.match(/<testcase /g)?.length ?? 0,
    failures: xml.match(/<failure /g)?.length ?? 0,
    inSuites: { tests: said('testsuite', 'tests'), failures: said('testsuite', 'failures') },
    inTotal: { tests: said('testsuites', 'tests'), failures: said('testsuites', 'failures') },
  };
}

describe('JUnit XML', () => {
  test.each(SAMPLES)(
    'JUnit XML of the report %s is well-formed and free of control characters',
    (_name, report) => {
      const xml = renderJunit(report);
      expect(wellFormed(xml)).toBe(true);
      expect(xml.replace(/<[^>]*>/g, '')).not.toMatch(/[<>]/);
      expect(xml).not.toMatch(/[^\P{Cc}\n]/u);
    },
  );

  test.each(SAMPLES)('JUnit XML of the report %s counts its own test cases and failures', (_name, report) => {
    const { tests, failures, inSuites, inTotal } = countsOf(renderJunit(report));
    expect(inSuites).toEqual({ tests, failures });
    expect(inTotal).toEqual({ tests, failures });
  });

  // The verdict; each hazard; each check, broken query and further run; an apply; a swap.
  test.each([
    ['passed', 1, 0],
    ['failed-command', 1, 1],
    ['rewrite', 4, 2],
    ['large', 26, 0],
    ['interrupted', 1, 1],
    ['asked', 8, 6],
    ['half-applied', 2, 1],
    ['swapped', 2, 0],
    ['swap-undone', 2, 1],
  ])('JUnit XML of the report %s has %i test cases and %i failures', (name, tests, failures) => {
    expect(countsOf(renderJunit(sample(name)))).toMatchObject({ tests, failures });
  });

  test('JUnit XML has a failure for an error that the policy does not allow, and quotes names', () => {
    const hazard = {
      code: 'REWRITE',
      severity: 'error' as const,
      statement: null,
      relation: 'public."a<b"',
      message: 'all rows',
      evidence: '',
      advice: '',
      allowed: false,
    };
    const failures = (...hazards: Report['hazards']) =>
      countsOf(renderJunit(sampleReport({ hazards }))).failures;
    expect(failures(hazard)).toBe(1);
    expect(failures({ ...hazard, allowed: true })).toBe(0);
    expect(failures({ ...hazard, severity: 'warning' })).toBe(0);
    expect(renderJunit(sampleReport({ hazards: [hazard] }))).toContain(
      'REWRITE on public.&quot;a&lt;b&quot;',
    );
  });
});

const SAMPLE_LINE =
  /^(safemigrate_[a-z_]+)\{((?:[a-z]+="(?:[^"\\\n]|\\.)*")(?:,[a-z]+="(?:[^"\\\n]|\\.)*")*)\} (-?\d[\d.e+-]*)$/;

/** Each sample's value by its name and labels; the label `database`, which all have, is left out. */
function samplesOf(text: string): Record<string, number> {
  const lines = text.trimEnd().split('\n');
  expect(lines.pop()).toBe('# EOF');
  const samples: Record<string, number> = {};
  let family = '';
  for (const line of lines) {
    const declared = /^# TYPE (\S+) gauge$/.exec(line)?.[1];
    if (declared) family = declared;
    if (line.startsWith('#')) continue;
    const [, name = '', labels = '', value] = SAMPLE_LINE.exec(line) ?? [];
    expect(name, line).toBe(family);
    const others = labels.replace(/^database="(?:[^"\\]|\\.)*",?/, '');
    samples[others === '' ? name : `${name}{${others}}`] = Number(value);
  }
  return samples;
}

describe('OpenMetrics text', () => {
  test.each(SAMPLES)(
    'OpenMetrics of the report %s declares each family once, before its samples',
    (_name, report) => {
      const text = renderOpenMetrics(report);
      const types = text.split('\n').filter((line) => line.startsWith('# TYPE '));
      expect(new Set(types).size).toBe(types.length);
      expect(Object.keys(samplesOf(text)).length).toBeGreaterThanOrEqual(types.length);
    },
  );

  test.each(SAMPLES)('OpenMetrics of the report %s names the unit of seconds and bytes', (_name, report) => {
    const text = renderOpenMetrics(report);
    for (const [, name, unit] of text.matchAll(/^# TYPE (\S+_(seconds|bytes)) gauge$/gm))
      expect(text).toContain(`# UNIT ${name} ${unit}\n`);
  });

  test.each<[string, Record<string, number>]>([
    [
      'rewrite',
      {
        safemigrate_run_passed: 0,
        safemigrate_command_duration_seconds: 252.4,
        'safemigrate_clone_duration_seconds{method="template",strategy="clone"}': 0.412,
        safemigrate_statements: 4,
        'safemigrate_lock_held_max_seconds{mode="ACCESS EXCLUSIVE"}': 241.9,
        safemigrate_wal_bytes: 20 * 1024 ** 3,
        'safemigrate_hazards{severity="error"}': 1,
        'safemigrate_hazards{severity="warning"}': 0,
        'safemigrate_hazards{severity="notice"}': 1,
      },
    ],
    ['failed-command', { safemigrate_command_exit_code: 1, safemigrate_statements_failed: 2 }],
    [
      'half-applied',
      {
        'safemigrate_apply_outcome{outcome="partly"}': 1,
        'safemigrate_apply_outcome{outcome="applied"}': 0,
        'safemigrate_apply_statements{effect="committed"}': 1,
        'safemigrate_apply_statements{effect="unknown"}': 1,
        'safemigrate_apply_statements{effect="rolled back"}': 1,
        safemigrate_apply_retries: 2,
        safemigrate_apply_lagged_seconds: 2.4,
      },
    ],
    [
      'swapped',
      {
        'safemigrate_swap_outcome{outcome="swapped"}': 1,
        safemigrate_swap_stall_seconds: 3.14,
        'safemigrate_swap_step_duration_seconds{step="command"}': 2.21,
        safemigrate_forecast_queued_statements: 966,
        safemigrate_forecast_sessions_run_out: 1,
        safemigrate_forecast_blocked_by_seconds: 720,
        // Two standbys share this name.
        'safemigrate_forecast_standby_behind_bytes{standby="replica"}': 21 * 1024 ** 3,
      },
    ],
  ])('OpenMetrics of the report %s has the values that were measured', (name, values) => {
    expect(samplesOf(renderOpenMetrics(sample(name)))).toMatchObject(values);
  });

  test('OpenMetrics has no sample for a value that was not measured', () => {
    const samples = samplesOf(renderOpenMetrics(sample('interrupted')));
    expect(samples).not.toHaveProperty('safemigrate_command_exit_code');
    expect(samples).not.toHaveProperty('safemigrate_wal_bytes');
    expect(samples).not.toHaveProperty('safemigrate_apply_forced');
  });
});
