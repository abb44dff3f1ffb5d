import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { blockOf } from '../../helpers/marked-block.ts';
import { OPTIONS_BLOCK, optionTables } from '../../helpers/option-tables.ts';

const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');

test('the README has the options of today; else: npm run docs', () => {
  expect(blockOf(readme, OPTIONS_BLOCK)).toBe(optionTables());
});
