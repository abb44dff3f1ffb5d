import { describe, expect, test } from 'vitest';
import { renderJunit } from '../../../src/report/junit.ts';
import { renderOpenMetrics } from '../../../src/report/openmetrics.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

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

describe.each(Object.entries(sampleReports))('the report %s', (name, report) => {
  test('is well-formed JUnit XML with one failure where it did not pass', async () => {
    const xml = renderJunit(report);
    expect(wellFormed(xml)).toBe(true);
    expect(xml.replace(/<[^>]*>/g, '')).not.toMatch(/[<>]/);
    expect(xml).not.toMatch(/[^\P{Cc}\n]/u);
    if (report.verdict.pass) expect(xml).not.toContain('classname="safemigrate.rehearsal" <failure');
    else expect(xml).toContain('<failure');
    await expect(xml).toMatchFileSnapshot(`snapshots/${name}.xml`);
  });

  test('is OpenMetrics text: each family once, samples under it, and the end at the end', async () => {
    const text = renderOpenMetrics(report);
    const lines = text.trimEnd().split('\n');
    expect(lines.at(-1)).toBe('# EOF');
    const types = lines.filter((line) => line.startsWith('# TYPE '));
    expect(new Set(types).size).toBe(types.length);
    for (const line of lines.filter((line) => !line.startsWith('#')))
      expect(line).toMatch(
        /^safemigrate_[a-z_]+\{[a-z]+="(?:[^"\\\n]|\\.)*"(?:,[a-z]+="(?:[^"\\\n]|\\.)*")*\} -?\d[\d.e+-]*$/,
      );
    await expect(text).toMatchFileSnapshot(`snapshots/${name}.prom`);
  });
});

test('an allowed hazard and a warning are no failures for JUnit, an error is', () => {
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
  const count = (...hazards: (typeof hazard)[]) =>
    renderJunit(sampleReport({ hazards })).match(/<failure/g)?.length ?? 0;
  expect(count(hazard)).toBe(1);
  expect(count({ ...hazard, allowed: true })).toBe(0);
  expect(renderJunit(sampleReport({ hazards: [hazard] }))).toContain('REWRITE on public.&quot;a&lt;b&quot;');
});
