import { expect, test } from 'vitest';
import { renderHtml } from '../../../src/report/html.ts';
import { renderMarkdown } from '../../../src/report/markdown.ts';
import { renderText } from '../../../src/report/text.ts';
import { sampleReport, sampleReports } from '../../helpers/reports.ts';

const PLAIN = { columns: 100, colour: false, unicode: true, verbose: true };
const TITLE = /In one transaction, ACCESS EXCLUSIVE on t for 2\.0 s:/g;

const [statement] = sampleReports['failed-command']?.statements ?? [];

/** Three findings in one transaction of three statements, and one in another. */
function report() {
  if (!statement) throw new Error('the sample has no statement');
  const lock = { relation: 't', mode: 'ACCESS EXCLUSIVE', acquiredBy: 'x', heldMs: 2000, blocks: ['reads'] };
  const statements = [1, 2, 3, 4].map((index) => ({
    ...statement,
    index,
    transaction: index === 4 ? 2 : 1,
    error: null,
    locks: index === 1 ? [lock] : [],
  }));
  const hazards = [1, 2, 3, 4].map((index) => ({
    code: `CODE_${index}`,
    severity: 'warning' as const,
    statement: index,
    relation: 't',
    message: `message ${index}`,
    evidence: 'EVIDENCE',
    advice: '',
    allowed: false,
  }));
  return sampleReport({ statements, hazards });
}

test.each([
  ['text', renderText(report(), PLAIN)],
  ['Markdown', renderMarkdown(report())],
  ['HTML', renderHtml(report())],
])('the %s report has the findings of one transaction under one title', (_, text) => {
  expect(text.match(TITLE)).toHaveLength(1);
  const [, under = ''] = text.split(/In one transaction/);
  expect(under.split('CODE_4')[0]?.match(/EVIDENCE/g)).toHaveLength(1);
  expect(under).toMatch(/CODE_1[\s\S]*CODE_2[\s\S]*CODE_3[\s\S]*CODE_4/);
});

test('the Markdown report has them as a list below their title', () => {
  const markdown = renderMarkdown(report());
  expect(markdown.match(/^ {2}- \S+ \*\*warning\*\* `CODE_\d/gm)).toHaveLength(3);
  expect(markdown.match(/^ {4}- Evidence: EVIDENCE$/gm)).toHaveLength(1);
  expect(markdown).toMatch(/^- \S+ \*\*warning\*\* `CODE_4/m);
});
