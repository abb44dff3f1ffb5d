import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';
import { runAction } from '../helpers/action-runner.ts';
import { temporaryFolder } from '../helpers/cli.ts';
import { codeBlocksOf } from '../helpers/documented-commands.ts';
import { fillProject } from '../helpers/reader-project.ts';

const PAGE = readFileSync(fileURLToPath(new URL('../../docs/ci.md', import.meta.url)), 'utf8');

/** The inputs that the page gives the action, for Knex instead of Prisma. */
const block = codeBlocksOf(PAGE).find(({ text }) => text.includes('/safemigrate@'));
const [step]: { with: Record<string, string> }[] = parse(block?.text ?? '');
const documented = { ...step?.with, command: 'npx knex migrate:latest' };

const DUMP = `CREATE TABLE accounts (id int PRIMARY KEY, balance int);
INSERT INTO accounts SELECT n, 100 FROM generate_series(1, 1000) AS n;
`;

let api: Server;
let comments: string[] = [];

beforeAll(async () => {
  api = createServer(async (request, response) => {
    if (request.method === 'POST') comments.push(JSON.parse(await text(request)).body);
    response.end(request.method === 'GET' ? '[]' : '{}');
  });
  await new Promise<void>((resolve) => api.listen(0, '127.0.0.1', resolve));
});

afterAll(() => api.close());

async function runIn(given: Record<string, string>) {
  const [folder, place] = [temporaryFolder(), temporaryFolder()];
  await fillProject(folder);
  mkdirSync(path.join(folder, 'test'), { recursive: true });
  writeFileSync(path.join(folder, 'test/dump.sql'), DUMP);
  writeFileSync(path.join(place, 'event.json'), '{"pull_request": {"number": 7}}');
  comments = [];
  const { port } = api.address() as AddressInfo;
  return runAction(given, folder, place, {
    GITHUB_REPOSITORY: 'shop/api',
    GITHUB_EVENT_PATH: path.join(place, 'event.json'),
    GITHUB_API_URL: `http://127.0.0.1:${port}`,
  });
}

test('the workflow of the page rehearses on the dump, comments, and keeps all reports', {
  timeout: 60_000,
}, async () => {
  expect(documented).toEqual({ from: 'test/dump.sql', command: 'npx knex migrate:latest' });
  const { exitCode, printed, summary, artifact } = await runIn(documented);
  expect(exitCode, printed).toBe(0);
  expect(printed).toMatch(/PASSED/);
  expect(summary).toMatch(/Passed/i);
  expect(comments).toEqual([expect.stringMatching(/Passed/i)]);
  expect(artifact).toEqual(['html', 'json', 'md', 'xml'].map((ending) => `safemigrate.${ending}`));
});

test('a migration that does not pass fails the job, after the comment and the artifact', {
  timeout: 60_000,
}, async () => {
  const { exitCode, printed, artifact } = await runIn({ ...documented, options: '--expect no-change' });
  expect(exitCode, printed).toBe(1);
  expect(comments).toEqual([expect.stringMatching(/Did not pass/i)]);
  expect(artifact.length).toBe(4);
});
