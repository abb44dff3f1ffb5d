import { readdirSync, readFileSync } from 'node:fs';
import { expect, test } from 'vitest';

test('the map of the helpers names each of them, and none that is not there', () => {
  const folder = new URL('../helpers/', import.meta.url);
  const map = readFileSync(new URL('README.md', folder), 'utf8');
  const named = new Set([...map.matchAll(/`([\w-]+\.ts)`/g)].map(([, name]) => name));
  const helpers = readdirSync(folder).filter((name) => name.endsWith('.ts'));
  expect([...named].sort()).toEqual(helpers.sort());
});
