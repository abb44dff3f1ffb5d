import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Server } from '../../src/local-server/embedded.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { ownServer } from '../helpers/own-server.ts';
import { databasesBeside, inDatabase } from '../helpers/swapping.ts';

let server: Server;
let url: string;

beforeAll(async () => {
  server = await ownServer(18);
  url = inDatabase(server.url, 'app');
  await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
});
afterAll(() => server.stop());

interface Listed {
  readonly name: string;
  readonly keepUntil: string | null;
}

async function listed(): Promise<Listed[]> {
  const { stdout } = await safemigrate(['list', '--format', 'json', '--url', url]);
  const all: Listed[] = JSON.parse(stdout);
  return all.map(({ name, keepUntil }) => ({ name, keepUntil }));
}

/** @returns the name of the original, and the report's text. */
async function swap(
  ...keep: string[]
): Promise<{ original: string; text: string; keepUntil: string | null }> {
  const before = new Set((await listed()).map(({ name }) => name));
  const words = ['--url', url, 'swap', '--yes', ...keep, '--', ...sqlCommand('SELECT 1')];
  const { exitCode, stderr } = await safemigrate(words);
  expect(exitCode, stderr).toBe(0);
  const [made] = (await listed()).filter(({ name }) => !before.has(name));
  return { original: made?.name ?? '', text: stderr, keepUntil: made?.keepUntil ?? null };
}

const clean = (...words: string[]) => safemigrate(['clean', '--url', url, ...words]);

test('originals are dropped when the time is over that was set for them, or by their age, and never by themselves', {
  timeout: 120_000,
}, async () => {
  const start = Date.now();
  const over = await swap('--keep-original', '1ms');
  const open = await swap();
  const kept = await swap('--keep-original', '7d');
  const until = Date.parse(kept.keepUntil ?? '') - 7 * 86_400_000;
  expect(until).toBeGreaterThan(start);
  expect(until).toBeLessThan(Date.now());
  expect(open.keepUntil).toBeNull();
  const day = new Date(kept.keepUntil ?? '').toISOString().slice(0, 10);
  expect(kept.text).toMatch(new RegExp(`to be kept until\\s+${day}`));
  expect(open.text).not.toContain('to be kept until');

  const { stdout } = await safemigrate(['list', '--url', url]);
  expect(stdout).toMatch(new RegExp(`${over.original} +original whose time is over: .*clean --originals`));
  expect(stdout).toMatch(new RegExp(`${open.original} +original  `));
  expect(stdout).toMatch(new RegExp(`${kept.original} +original, to be kept for another (7 d 0 h|6 d 23 h)`));

  expect(await clean()).toMatchObject({ exitCode: 0, stdout: expect.not.stringContaining('dropped') });
  expect(await clean('--originals', '--older-than', '1d')).toMatchObject({
    exitCode: 0,
    stdout: expect.not.stringContaining('dropped'),
  });
  expect(await databasesBeside(server.url, 'app')).toHaveLength(3);

  const cleaned = await clean('--originals');
  expect(cleaned).toMatchObject({ exitCode: 0, stderr: '' });
  expect(cleaned.stdout.match(/^dropped .*$/gm)).toEqual([`dropped ${over.original}`]);
  expect(cleaned.stdout).toContain(`${open.original}: it is a kept original, and no time was set for it`);
  expect(cleaned.stdout).toMatch(new RegExp(`${kept.original}: .* kept for another (7 d 0 h|6 d 23 h)`));
  expect(await databasesBeside(server.url, 'app')).toEqual([open.original, kept.original].sort());

  // One that has a time set for it can be swapped back as any other.
  const back = await safemigrate(['rollback', '--yes', '--url', url]);
  expect(back).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('is the original again') });
  expect(await clean('--originals', '--rolled-back', '--older-than', '0s')).toMatchObject({
    exitCode: 0,
    stderr: '',
  });
  expect(await databasesBeside(server.url, 'app')).toEqual([]);
});
