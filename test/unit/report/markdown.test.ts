import { describe, expect, test } from 'vitest';
import { block, code, prose } from '../../../src/report/markdown/escape-markdown.ts';
import { COMMENT_MARK, renderMarkdown } from '../../../src/report/markdown.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const COMMENT_LIMIT = 65_536;

const SAMPLES = Object.entries(sampleReports);

describe('the Markdown report', () => {
  test.each(SAMPLES)('the Markdown report of %s reads well', async (name, report) => {
    await expect(renderMarkdown(report)).toMatchFileSnapshot(`snapshots/${name}.md`);
  });

  test.each(SAMPLES)(
    'the Markdown report of %s fits into a comment, and begins with the mark by which a later run finds it',
    (_name, report) => {
      const markdown = renderMarkdown(report);
      expect(markdown.length).toBeLessThan(COMMENT_LIMIT);
      expect(markdown.startsWith(`${COMMENT_MARK}\n### `)).toBe(true);
    },
  );

  test.each(SAMPLES)('the Markdown report of %s closes every part that it folds away', (_name, report) => {
    const markdown = renderMarkdown(report);
    expect(markdown.match(/<details>/g)?.length).toBe(markdown.match(/<\/details>/g)?.length);
  });
});

describe('a report that is too long for a comment', () => {
  const [statement] = sampleReports['failed-command']?.statements ?? [];
  if (!statement) throw new Error('the sample has a statement');
  const statements = Array.from({ length: 5_000 }, (_, index) => ({ ...statement, index, error: null }));
  const hazards = Array.from({ length: 30 }, (_, index) => ({
    code: `HAZARD_${index}`,
    severity: 'error' as const,
    statement: null,
    relation: null,
    message: 'm',
    evidence: 'e',
    advice: 'a',
    allowed: false,
  }));
  const markdown = renderMarkdown(sampleReport({ statements, hazards }));

  test('a report that is too long for a comment leaves out statements, says how many, and keeps every hazard', () => {
    expect(markdown.length).toBeLessThan(COMMENT_LIMIT);
    expect(markdown).toMatch(/… and \d,\d{3} more lines, left out/);
    for (const { code: name } of hazards) expect(markdown).toContain(`\`${name}\``);
  });
});

describe('text from outside', () => {
  test.each([
    ['a', '`a`'],
    ['a`b', '``a`b``'],
    ['``', '``` `` ```'],
    ['a|b', '`a\\|b`'],
    ['two\nlines', '`two lines`'],
    ['', '` `'],
    ['\u001b[2J', '`\\x1b[2J`'],
  ])('the text %j as code is %j', (text, expected) => {
    expect(code(text)).toBe(expected);
  });

  test('text from outside cannot end its block of code', () => {
    expect(block('sql', 'a\n````\n</details>')).toEqual(['`````sql', 'a\n````\n</details>', '`````']);
  });

  test.each([
    '<img src=x onerror=alert(1)>',
    '[a](javascript:alert(1))',
    '@team',
    '**bold**',
    '| a | b |',
    '# title',
  ])('text from outside is no markup in a sentence: %s', (text) => {
    const escaped = prose(text);
    expect(escaped).not.toMatch(/(^|[^\\])[<[*|#]/);
    expect(escaped).not.toMatch(/@\w/);
  });
});
