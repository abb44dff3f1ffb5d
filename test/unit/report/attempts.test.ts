import { expect, test } from 'vitest';
import type { ReportFormat } from '../../../src/report/formats.ts';
import { render } from '../../../src/report/render.ts';
import { sampleReport } from '../../helpers/reports.ts';

const FORMATS: ReportFormat[] = ['text', 'markdown', 'json', 'html'];

test.each(FORMATS)('what the sandbox did not allow stands in %s', async (format) => {
  const report = sampleReport();
  const { command, verdict } = report;
  const attempts = [{ host: 'api.doppler.com', port: 443, count: 1_234, reason: 'not-allowed' as const }];
  const failed = { ...command, exitCode: 1, failedWithoutError: true };
  const text = await render(
    {
      ...report,
      statements: [],
      command: { ...failed, isolation: { ...command.isolation, kind: 'sandboxed', attempts } },
      verdict: { ...verdict, pass: false },
    },
    format,
    { colour: false, unicode: true, columns: 100 },
  );
  const flat = text.replaceAll(/\s+/g, ' ');
  expect(flat).toContain('api.doppler.com');
  if (format === 'json') return;
  expect(flat).toMatch(/not allowed by the sandbox: api\.doppler\.com:443 \(1,234 times\)/);
  expect(flat).toMatch(/--permit api\.doppler\.com:443/);
});
