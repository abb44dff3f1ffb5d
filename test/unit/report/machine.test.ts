import { describe, expect, test } from 'vitest';
import type { Report } from '../../../src/model/report.ts';
import { renderJunit } from '../../../src/report/junit.ts';
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
    ['asked', 11, 8],
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
