import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { lastingDisagreements } from '../helpers/outside/disagreements.ts';
import { SOURCED_NUMBERS } from '../helpers/outside/numbers.ts';
import { measureNumbers } from '../helpers/outside/numbers-run.ts';
import { UNSOURCED_NUMBERS } from '../helpers/outside/unsourced-numbers.ts';
import { measureWaits, WAITS } from '../helpers/outside/waits-run.ts';
import { OLDEST_AND_NEWEST } from '../helpers/servers.ts';

/** Some runs, on a machine that has other work. */
const TIMEOUT_MS = 10 * 60_000;

/** Compared by drivers.test.ts, for each driver and protocol. */
const OF_DRIVERS = [
  'statements[].locks[].heldMs',
  'data.written[].inserted',
  'data.written[].updated',
  'data.written[].deleted',
];

describe.each(OLDEST_AND_NEWEST)('on %s', (version) => {
  test(
    'every number of a report is what others measure',
    async () => {
      expect(await lastingDisagreements(() => measureNumbers(version))).toEqual([]);
    },
    TIMEOUT_MS,
  );

  test(
    'the waits behind a command are those of a client that waits',
    async () => {
      expect(await lastingDisagreements(() => measureWaits(version))).toEqual([]);
    },
    TIMEOUT_MS,
  );
});

test('every number of the report has a source, or a reason why it has none', () => {
  const schema = JSON.parse(readFileSync(new URL('../../dist/report.schema.json', import.meta.url), 'utf8'));
  const sourced = new Set([
    ...SOURCED_NUMBERS.flatMap(({ paths }) => paths),
    ...WAITS.flatMap(({ path }) => path),
    ...OF_DRIVERS,
  ]);
  const numbers = [...numericPaths(schema)];
  const without = numbers.filter(
    (path) => !sourced.has(path) && !UNSOURCED_NUMBERS.some(({ paths }) => paths.test(path)),
  );
  expect(without).toEqual([]);
  expect(UNSOURCED_NUMBERS.filter(({ paths }) => !numbers.some((path) => paths.test(path)))).toEqual([]);
});

interface JsonSchema {
  readonly $ref?: string;
  readonly $defs?: Record<string, JsonSchema>;
  readonly type?: string;
  readonly anyOf?: readonly JsonSchema[];
  readonly properties?: Record<string, JsonSchema>;
  readonly items?: JsonSchema;
}

function numericPaths(root: JsonSchema): Set<string> {
  const paths = new Set<string>();
  const visit = (node: JsonSchema, path: string): void => {
    const target = node.$ref === undefined ? undefined : root.$defs?.[node.$ref.split('/').at(-1) ?? ''];
    if (target) visit(target, path);
    for (const each of node.anyOf ?? []) visit(each, path);
    if (node.type === 'number' || node.type === 'integer') paths.add(path);
    for (const [name, each] of Object.entries(node.properties ?? {}))
      visit(each, path ? `${path}.${name}` : name);
    if (node.items) visit(node.items, `${path}[]`);
  };
  visit(root, '');
  return paths;
}
