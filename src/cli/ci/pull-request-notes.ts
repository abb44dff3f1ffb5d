import { messageOf } from '../../errors.ts';

/** A place for one note that each run rewrites: the comments of a pull request, the notes of a merge request. */
export interface NotePlace {
  /** For people: `pull request 7 of owner/name`. */
  readonly name: string;
  readonly headers: Readonly<Record<string, string>>;
  /** The notes that are there; pages are numbered from 1. */
  listUrl(page: number): string;
  readonly createUrl: string;
  updateUrl(id: number): string;
  readonly updateMethod: 'PATCH' | 'PUT';
}

const PER_PAGE = 100;
/** Our note is looked for on this many pages; people do not read further either. */
const PAGES = 20;
const TIMEOUT_MS = 20_000;

export type Published = { readonly done: 'created' | 'updated' } | { readonly failed: string };

/**
 * Writes the text into the note that begins with the mark, or into a new one. Never throws: a pipeline without the right to
 * comment has rehearsed all the same.
 */
export async function publishNote(place: NotePlace, mark: string, text: string): Promise<Published> {
  try {
    const id = await findNote(place, mark);
    if (id === undefined) await send(place, 'POST', place.createUrl, { body: text });
    else await send(place, place.updateMethod, place.updateUrl(id), { body: text });
    return { done: id === undefined ? 'created' : 'updated' };
  } catch (error) {
    return { failed: messageOf(error) };
  }
}

async function findNote(place: NotePlace, mark: string): Promise<number | undefined> {
  for (let page = 1; page <= PAGES; page++) {
    const notes = (await send(place, 'GET', place.listUrl(page))) as readonly {
      readonly id: number;
      readonly body: string | null;
    }[];
    const own = notes.find(({ body }) => body?.startsWith(mark));
    if (own) return own.id;
    if (notes.length < PER_PAGE) return undefined;
  }
  return undefined;
}

async function send({ headers }: NotePlace, method: string, url: string, body?: unknown): Promise<unknown> {
  const response = await fetch(url, {
    method,
    headers: { ...headers, 'content-type': 'application/json', accept: 'application/json' },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    signal: AbortSignal.timeout(TIMEOUT_MS),
  });
  if (!response.ok) throw new Error(`${method} was answered with ${response.status} ${response.statusText}`);
  return response.json();
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Finds the place of this pipeline's note, from the variables of GitHub Actions or GitLab CI.
 * @param readFile returns the text of a file, or undefined if there is none.
 * @returns the reason if there is no such place.
 */
export function notePlace(
  env: Environment,
  readFile: (path: string) => string | undefined,
): NotePlace | { readonly nowhere: string } {
  if (env.GITHUB_ACTIONS === 'true') return github(env, readFile);
  if (env.GITLAB_CI === 'true') return gitlab(env);
  return { nowhere: 'this is neither GitHub Actions nor GitLab CI' };
}

function github(env: Environment, readFile: (path: string) => string | undefined) {
  const { GITHUB_TOKEN: token, GITHUB_REPOSITORY: repository } = env;
  if (!token || !repository)
    return { nowhere: unset({ GITHUB_TOKEN: token, GITHUB_REPOSITORY: repository }) };
  const number = pullRequestOf(readFile(env.GITHUB_EVENT_PATH ?? ''));
  if (number === undefined) return { nowhere: 'this run does not belong to a pull request' };
  const api = `${env.GITHUB_API_URL ?? 'https://api.github.com'}/repos/${repository}/issues`;
  return {
    name: `pull request ${number} of ${repository}`,
    headers: { authorization: `Bearer ${token}`, 'x-github-api-version': '2022-11-28' },
    listUrl: (page: number) => `${api}/${number}/comments?per_page=${PER_PAGE}&page=${page}`,
    createUrl: `${api}/${number}/comments`,
    updateUrl: (id: number) => `${api}/comments/${id}`,
    updateMethod: 'PATCH' as const,
  };
}

/** Names the first variable that is missing. */
function unset(variables: Environment): string {
  const [name] = Object.entries(variables).find(([, value]) => !value) ?? [];
  return `${name} is not set`;
}

function pullRequestOf(event: string | undefined): number | undefined {
  try {
    const { pull_request: request, issue } = JSON.parse(event ?? '') as Record<string, { number?: unknown }>;
    const number = request?.number ?? issue?.number;
    return typeof number === 'number' ? number : undefined;
  } catch {
    return undefined;
  }
}

function gitlab(env: Environment) {
  const {
    GITLAB_TOKEN: token,
    CI_API_V4_URL: root,
    CI_PROJECT_ID: project,
    CI_MERGE_REQUEST_IID: request,
  } = env;
  if (!request) return { nowhere: 'this pipeline does not belong to a merge request' };
  if (!token || !root || !project)
    return { nowhere: unset({ GITLAB_TOKEN: token, CI_API_V4_URL: root, CI_PROJECT_ID: project }) };
  const notes = `${root}/projects/${encodeURIComponent(project)}/merge_requests/${request}/notes`;
  return {
    name: `merge request ${request}`,
    headers: { 'private-token': token },
    listUrl: (page: number) => `${notes}?per_page=${PER_PAGE}&page=${page}`,
    createUrl: notes,
    updateUrl: (id: number) => `${notes}/${id}`,
    updateMethod: 'PUT' as const,
  };
}
