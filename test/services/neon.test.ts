import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { realProgram } from '../helpers/service-programs.ts';
import { serviceSuite } from './suite.ts';

const BRANCH = {
  id: 'br-main-branch-1',
  name: 'main',
  default: true,
  protected: false,
  current_state: 'ready',
  created_at: '2026-01-01T00:00:00Z',
};

const PROJECT = '/projects/cool-project-1/branches';
const PAGE_SIZE = 150;

/** Neon's pages: the caller has to ask for the rest. */
function pageOf(query: string, branches: readonly object[]) {
  const from = Number(new URLSearchParams(query).get('cursor') ?? 0);
  const until = from + PAGE_SIZE;
  const pagination = until < branches.length ? { next: String(until) } : {};
  return { branches: branches.slice(from, until), pagination };
}

/** Neon's program knows an id by its form. */
const idOf = ({ id }: Thing) => `br-fake-clone-${id.replace(/\D/g, '')}`;

function branchOf(thing: Thing, fake: FakeService) {
  const { name, createdAt } = thing;
  return {
    id: idOf(thing),
    name,
    parent_id: BRANCH.id,
    default: false,
    protected: false,
    current_state: fake.isReady(thing) ? 'ready' : 'init',
    created_at: createdAt,
  };
}

/** What the program asks for to print a connection string. Roles have the passwords of the source. */
function partOf(thing: Thing, part: string, fake: FakeService) {
  const { username, password, pathname } = new URL(fake.target?.url ?? '');
  switch (part) {
    case 'endpoints': {
      const at = { host: `${thing.host}:${thing.port}`, branch_id: idOf(thing) };
      return { endpoints: [{ id: 'ep-1', type: 'read_write', ...at }] };
    }
    case 'databases':
      return { databases: [{ name: pathname.slice(1), owner_name: username }] };
    case `roles/${username}/reveal_password`:
      return { password: decodeURIComponent(password) };
    default:
      throw new Error(`no ${part}`);
  }
}

/** The branch of this name, made by a request. */
const nameIn = (body = ''): string => JSON.parse(body).branch.name;

await serviceSuite({
  service: 'neon',
  playsLoad: true,
  of: 'cool-project-1',
  billed: /^CU-hours of the compute, and by GB-months of the changed pages$/,
  program: 'neon',
  real: await realProgram('neon'),
  expired: 'authentication failed',
  kindOf: ([method, path]) => {
    if (method === 'POST') return 'create';
    if (method === 'DELETE') return 'destroy';
    return path === PROJECT ? 'list' : 'other';
  },
  async answer([method = '', path = '', query = '', body = ''], fake) {
    const [id, ...part] = path.slice(PROJECT.length + 1).split('/');
    // The default branch is on the last page.
    if (path === PROJECT && method === 'GET')
      return pageOf(query, [...fake.things.map((thing) => branchOf(thing, fake)), BRANCH]);
    if (method === 'POST') {
      const { parent_id, expires_at } = JSON.parse(body).branch;
      if (parent_id !== BRANCH.id) throw new Error('another parent');
      // After kill -9, Neon itself deletes the branch.
      if (!(Date.parse(expires_at) > Date.now())) throw new Error('it never expires');
      const made = branchOf(await fake.create(nameIn(body)), fake);
      return { branch: made, endpoints: [], operations: [], roles: [], databases: [] };
    }
    const thing = fake.things.find((each) => idOf(each) === id);
    if (thing === undefined) throw new Error('branch not found');
    if (method === 'GET') return partOf(thing, part.join('/'), fake);
    await fake.destroy((each) => each === thing);
    return { branch: branchOf(thing, fake), operations: [] };
  },
});
