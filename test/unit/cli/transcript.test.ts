import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { report as reportModel } from '../../../src/model/report.ts';
import { blockOf } from '../../helpers/marked-block.ts';
import { TRANSCRIPT_BLOCK, transcriptOf } from '../../helpers/transcript.ts';

const read = (name: string) => readFileSync(new URL(name, import.meta.url), 'utf8');

test('the README shows what today’s renderer makes of a real run; else: npm run transcript', () => {
  const report = reportModel.parse(JSON.parse(read('transcript.json')));
  expect(report.verdict.pass).toBe(true);
  expect(blockOf(read('../../../README.md'), TRANSCRIPT_BLOCK)).toBe(transcriptOf(report));
});
