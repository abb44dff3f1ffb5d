import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { report as reportModel } from '../../../src/model/report.ts';
import { renderText } from '../../../src/report/text.ts';
import { displayWidth } from '../../../src/report/width.ts';
import { blockOf } from '../../helpers/marked-block.ts';
import { TRANSCRIPT_BLOCK, transcriptOf } from '../../helpers/transcript.ts';

const read = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');

const report = reportModel.parse(JSON.parse(read('transcript.json')));

test('the README shows what today’s renderer makes of a real run; else: npm run transcript', () => {
  expect(report.verdict.pass).toBe(true);
  expect(blockOf(read('../../../README.md'), TRANSCRIPT_BLOCK)).toBe(transcriptOf(report));
});

test.each([80, 120])(
  'a terminal of %d columns and 24 lines shows it, the verdict first and last',
  (columns) => {
    const lines = renderText(report, { columns, colour: false, unicode: true }).trimEnd().split('\n');
    expect(lines.length).toBeLessThanOrEqual(24);
    expect(lines.filter((line) => displayWidth(line) > columns)).toEqual([]);
    expect(lines[0]).toMatch(/^✓ PASSED: 1 warning, 5 notices .* node migrate\.js/);
    expect(lines.at(-1)).toMatch(/^✓ Passed, nothing was changed\./);
    const answers = lines.flatMap((line) => /^ {2}(Users|Schema|Data|Time|Target) /.exec(line)?.[1] ?? []);
    expect(answers).toEqual(['Users', 'Schema', 'Data', 'Time', 'Target']);
  },
);
