import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type NotePlace, notePlace, publishNote } from '../../../src/cli/ci/pull-request-notes.ts';

const MARK = '<!-- safemigrate -->';

/** The few calls of both APIs: list, create, update. */
let server: Server;
let url: string;
let notes: { id: number; body: string }[];
let requests: { method: string; url: string; token: string | undefined }[];
let status: number;

beforeAll(async () => {
  server = createServer(async (request, response) => {
    const { method = '', url: path = '', headers } = request;
    requests.push({
      method,
      url: path,
      token: headers.authorization ?? (headers['private-token'] as string),
    });
    response.setHeader('content-type', 'application/json');
    if (status !== 200) {
      response.statusCode = status;
      response.end('{}');
      return;
    }
    const body = method === 'GET' ? '' : (JSON.parse(await text(request)) as { body: string }).body;
    const id = Number(/\/(\d+)$/.exec(path)?.[1]);
    if (method === 'GET') {
      const page = Number(/[?&]page=(\d+)/.exec(path)?.[1]);
      response.end(JSON.stringify(notes.slice((page - 1) * 100, page * 100)));
      return;
    }
    if (method === 'POST') notes.push({ id: notes.length + 1, body });
    else notes = notes.map((note) => (note.id === id ? { id, body } : note));
    response.end('{}');
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => server.close());

beforeEach(() => {
  notes = [];
  requests = [];
  status = 200;
});

const github = (more: Record<string, string | undefined> = {}) =>
  notePlace(
    {
      GITHUB_ACTIONS: 'true',
      GITHUB_TOKEN: 'secret',
      GITHUB_REPOSITORY: 'shop/api',
      GITHUB_EVENT_PATH: '/event.json',
      GITHUB_API_URL: url,
      ...more,
    },
    (path) => (path === '/event.json' ? '{"pull_request": {"number": 7}}' : undefined),
  );

const gitlab = (more: Record<string, string | undefined> = {}) =>
  notePlace(
    {
      GITLAB_CI: 'true',
      GITLAB_TOKEN: 'secret',
      CI_API_V4_URL: url,
      CI_PROJECT_ID: '12',
      CI_MERGE_REQUEST_IID: '3',
      ...more,
    },
    () => undefined,
  );

function placeOf(found: ReturnType<typeof notePlace>): NotePlace {
  if ('nowhere' in found) throw new Error(found.nowhere);
  return found;
}

describe.each([
  ['a pull request on GitHub', github, 'Bearer secret'],
  ['a merge request on GitLab', gitlab, 'secret'],
])('%s', (_, where, token) => {
  test('gets a note at the first run, and the same one again at the second', async () => {
    const place = placeOf(where());
    expect(await publishNote(place, MARK, `${MARK}\nfirst`)).toEqual({ done: 'created' });
    expect(await publishNote(place, MARK, `${MARK}\nsecond`)).toEqual({ done: 'updated' });
    expect(notes).toEqual([{ id: 1, body: `${MARK}\nsecond` }]);
    expect(requests.every((request) => request.token === token)).toBe(true);
  });

  test('keeps the notes of people, however many there are before ours', async () => {
    notes = Array.from({ length: 250 }, (_, index) => ({ id: index + 1, body: 'a remark' }));
    notes[230] = { id: 231, body: `${MARK}\nold` };
    expect(await publishNote(placeOf(where()), MARK, `${MARK}\nnew`)).toEqual({ done: 'updated' });
    expect(notes[230]).toEqual({ id: 231, body: `${MARK}\nnew` });
    expect(notes.filter(({ body }) => body === 'a remark')).toHaveLength(249);
  });

  test('without the right to comment is told so, and nothing fails', async () => {
    status = 403;
    expect(await publishNote(placeOf(where()), MARK, MARK)).toEqual({
      failed: expect.stringContaining('403'),
    });
  });
});

test.each([
  ['no token', github({ GITHUB_TOKEN: undefined })],
  ['no pull request', github({ GITHUB_EVENT_PATH: '/push.json' })],
  ['no merge request', gitlab({ CI_MERGE_REQUEST_IID: undefined })],
  ['no token on GitLab', gitlab({ GITLAB_TOKEN: '' })],
  ['neither', notePlace({}, () => undefined)],
])('with %s there is no place for a note', (_, place) => {
  expect(place).toEqual({ nowhere: expect.any(String) });
});

test.each([
  [{ GITHUB_ACTIONS: 'true', GITHUB_REPOSITORY: 'o/n' }, 'GITHUB_TOKEN is not set'],
  [{ GITHUB_ACTIONS: 'true', GITHUB_TOKEN: 't' }, 'GITHUB_REPOSITORY is not set'],
  [{ GITLAB_CI: 'true', CI_MERGE_REQUEST_IID: '1', GITLAB_TOKEN: 't' }, 'CI_API_V4_URL is not set'],
])('of the variables of %j the one that is missing is named', (env, nowhere) => {
  expect(notePlace(env, () => undefined)).toEqual({ nowhere });
});
