import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { configSource } from '../../../src/cli/options/config.ts';

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'config-'));
});
afterEach(() => rmSync(folder, { recursive: true }));

const write = (name: string, content: string) => writeFileSync(path.join(folder, name), content);
const values = async (executes = true) => (await configSource(folder, executes))?.values;

test('no configuration is none', async () => {
  write('package.json', '{"name": "shop"}');
  expect(await values()).toBeUndefined();
});

test.each([
  ['safemigrate.config.json', '{"wait": 5}'],
  ['safemigrate.config.mjs', 'export default { wait: 5 };'],
  ['safemigrate.config.js', 'export default { wait: 5 };'],
  ['package.json', '{"type": "module", "safemigrate": {"wait": 5}}'],
])('%s is read', async (name, content) => {
  write(name, content);
  if (name.endsWith('.js')) write('package.json', '{"type": "module"}');
  expect(await values()).toEqual({ wait: 5 });
  expect((await configSource(folder, true))?.nameOf('wait')).toBe(`${name}: wait`);
});

test('two configurations are refused, both are named', async () => {
  write('safemigrate.config.json', '{}');
  write('package.json', '{"safemigrate": {}}');
  await expect(values()).rejects.toMatchObject({
    code: 'CONFIGURATION',
    message: expect.stringMatching(/safemigrate\.config\.json.*package\.json/),
  });
});

test.each(['[]', 'null', '5', '"x"'])('a configuration that is %s is refused', async (content) => {
  write('safemigrate.config.json', content);
  await expect(values()).rejects.toMatchObject({ code: 'CONFIGURATION' });
});

test.each([
  ['safemigrate.config.json', '{"wait": }'],
  ['safemigrate.config.mjs', 'throw new Error("no")'],
  ['safemigrate.config.mjs', 'export const wait = 5;'],
])('%s with %s is refused', async (name, content) => {
  write(name, content);
  await expect(values()).rejects.toMatchObject({ code: 'CONFIGURATION' });
});

test('a package.json that cannot be read is not ours to complain about, unless it speaks of us', async () => {
  write('package.json', '{"name": "shop",}');
  expect(await values()).toBeUndefined();
  write('package.json', '{"safemigrate": {"failOn": "warning"},}');
  await expect(values()).rejects.toMatchObject({ code: 'CONFIGURATION' });
});

test('a configuration that is a program is not executed unless that is asked for', async () => {
  write('safemigrate.config.mjs', 'throw new Error("executed")');
  expect(await values(false)).toBeUndefined();
  await expect(values(true)).rejects.toMatchObject({ message: expect.stringContaining('executed') });
});
