import { expect, test } from 'vitest';
import { withoutCommands } from '../../../src/cli/ci/log-commands.ts';
import type { Report } from '../../../src/model/report.ts';
import type { ReportFormat } from '../../../src/report/formats.ts';
import { render } from '../../../src/report/render.ts';
import { sampleReports } from '../../helpers/reports.ts';

const STYLE = { columns: 100, colour: false, unicode: true };
/** Where others choose the names. */
const NAMED = new Set(['relation', 'object', 'database', 'user', 'name', 'what', 'path']);

/** The same report with a line end and a workflow command in each name. */
function withLineEnds(value: unknown, key = ''): unknown {
  if (typeof value === 'string') return NAMED.has(key) ? `${value}\n::error::planted\r##[planted]` : value;
  if (Array.isArray(value)) return value.map((each) => withLineEnds(each, key));
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, each]) => [name, withLineEnds(each, name)]));
}

/** HTML is for browsers, which take a line end for a space. */
const FORMATS: ReportFormat[] = ['text', 'markdown', 'json', 'junit', 'sarif'];

test.each(FORMATS)('a line end in a name begins no line in %s', async (format) => {
  for (const report of Object.values(sampleReports)) {
    const text = await render(withLineEnds(report) as Report, format, STYLE);
    const lines = text.split(/\r\n|\r|\n/).filter((line) => /^\s*::/.test(line));
    expect(lines).toEqual([]);
  }
});

test('on GitHub a text that the runner would take for a command is put between stop-commands', () => {
  const env = { GITHUB_ACTIONS: 'true' };
  const quoted = withoutCommands('a\n::add-mask::x\n', env);
  expect(quoted).toMatch(/^::stop-commands::([\w-]{36})\na\n::add-mask::x\n::\1::\n$/);
  expect(withoutCommands('table ##[error]x', env)).toMatch(
    /^::stop-commands::([\w-]{36})\ntable ##\[error\]x\n::\1::\n$/,
  );
  expect(withoutCommands('a: b::c\n', env)).toBe('a: b::c\n');
  expect(withoutCommands('::add-mask::x\n', {})).toBe('::add-mask::x\n');
});
