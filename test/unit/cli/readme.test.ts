import { readFileSync } from 'node:fs';
import { expect, test } from 'vitest';
import { type OptionTable, RUN_OPTIONS } from '../../../src/cli/options-table.ts';
import { subcommands } from '../../../src/cli/subcommands.ts';

const readme = readFileSync(new URL('../../../README.md', import.meta.url), 'utf8');

const table: OptionTable = Object.assign({}, ...subcommands().map(([, { options }]) => options), RUN_OPTIONS);
const options = Object.values(table);

test.each(options)('the README has $flag with its own words', ({ flag, description, default: standard }) => {
  const words = standard === undefined ? description : `${description} (default: ${standard})`;
  expect(readme).toContain(`| \`${flag}\` | ${words} |`);
});

test('the README names no option that does not exist', () => {
  const named = [...readme.matchAll(/^\| `(--[a-z-]+)/gm)].map(([, flag]) => flag);
  const known = options.map(({ flag }) => flag.split(' ')[0]);
  expect(named.filter((flag) => !known.includes(flag))).toEqual([]);
});
