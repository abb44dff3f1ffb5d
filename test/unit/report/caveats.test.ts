import { describe, expect, test } from 'vitest';
import { render } from '../../../src/report/render.ts';
import { caveatSubject } from '../../../src/report/sections/caveats-view.ts';
import { reportRows } from '../../helpers/report-page.ts';
import { sampleReport } from '../../helpers/reports.ts';

const PATHS = reportRows().flatMap(({ rows }) => rows.map(({ path }) => path));

describe('a caveat', () => {
  test('has a subject in words, whatever path of the report it is about', () => {
    expect(PATHS.filter((path) => !/^[a-z][a-z' ]+(SQL)?$/.test(caveatSubject(path) ?? ''))).toEqual([]);
  });

  test.each(['text', 'html', 'markdown'] as const)(
    'shows no path of the JSON report as %s',
    async (format) => {
      const caveats = ['statements[].locks', 'data.lost', 'schema.rollbackSql'].map((path) => ({
        path,
        kind: 'unmeasured' as const,
        reason: `REASON of ${path}`.replaceAll('[]', '').replaceAll('.', ' '),
      }));
      const style = { columns: 100, colour: false, unicode: true, verbose: true };
      const [, shown = ''] = (await render(sampleReport({ caveats }), format, style)).split(/caveats/i);
      const words = (await render(sampleReport({ caveats }), format, style)).replace(/<[^>]*>/g, '');
      expect(words).toContain('Locks (not measured): REASON of statements locks');
      for (const { path } of caveats) expect(shown).not.toContain(path);
    },
  );

  test('that every run has is in the JSON report alone', async () => {
    const caveats = [{ path: 'forecast.disk.freeBytes', kind: 'unmeasured' as const, reason: 'REASON' }];
    const style = { columns: 100, colour: false, unicode: true, verbose: true };
    for (const format of ['text', 'html', 'markdown'] as const)
      expect(await render(sampleReport({ caveats }), format, style)).not.toContain('REASON');
    expect(await render(sampleReport({ caveats }), 'json', style)).toContain('REASON');
  });
});
