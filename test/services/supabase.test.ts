import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { realProgram } from '../helpers/service-programs.ts';
import { serviceSuite } from './suite.ts';

const REF = 'aaaaaaaaaaaaaaaaaaaa';
const MAIN = {
  id: '6f1c2f0a-0000-4000-8000-000000000000',
  name: 'main',
  project_ref: REF,
  parent_project_ref: REF,
  is_default: true,
  persistent: true,
  status: 'FUNCTIONS_DEPLOYED',
  created_at: '2026-01-01T00:00:00Z',
  updated_at: '2026-01-01T00:00:00Z',
  with_data: false,
};

const numberOf = ({ id }: Thing) => id.replace(/\D/g, '');
/** The program knows an id and the name of a project by their forms. */
const idOf = (thing: Thing) => `6f1c2f0a-0000-4000-8000-1${numberOf(thing).padStart(11, '0')}`;
const refOf = (thing: Thing) =>
  numberOf(thing)
    .padStart(20, '0')
    .replace(/\d/g, (digit) => 'bcdefghijk'.charAt(Number(digit)));

function branchOf(thing: Thing, fake: FakeService) {
  const { name, createdAt } = thing;
  const ready = fake.isReady(thing);
  return {
    ...MAIN,
    id: idOf(thing),
    name,
    project_ref: refOf(thing),
    is_default: false,
    persistent: false,
    with_data: true,
    status: ready ? 'MIGRATIONS_PASSED' : 'CREATING_PROJECT',
    preview_project_status: ready ? 'ACTIVE_HEALTHY' : 'COMING_UP',
    created_at: createdAt,
  };
}

/** A branch is a project, whose database has its own password. */
function projectOf(thing: Thing) {
  const { username, password } = new URL(thing.database?.url ?? 'postgres://nobody');
  return {
    ref: refOf(thing),
    postgres_version: '17.6.1.084',
    postgres_engine: '17',
    release_channel: 'ga',
    status: 'ACTIVE_HEALTHY',
    db_host: thing.host,
    db_port: thing.port,
    db_user: username,
    db_pass: decodeURIComponent(password),
    jwt_secret: 'secret',
  };
}

const KEYS = ['anon', 'service_role'].map((name) => ({ name, api_key: name }));
const POOLER_URL = 'postgres://postgres:[YOUR-PASSWORD]@pooler.example.com:6543/postgres';
const POOLER = {
  identifier: REF,
  database_type: 'PRIMARY',
  is_using_scram_auth: true,
  db_user: 'postgres',
  db_host: 'pooler.example.com',
  db_port: 6543,
  db_name: 'postgres',
  connection_string: POOLER_URL,
  connectionString: POOLER_URL,
  default_pool_size: 15,
  max_client_conn: 200,
  pool_mode: 'transaction',
};
const BRANCHES = `/v1/projects/${REF}/branches`;

await serviceSuite({
  service: 'supabase',
  billed: /^hours of the project's compute, and by GB-hours of its disk$/,
  of: REF,
  program: 'supabase',
  real: await realProgram('supabase'),
  expired: 'Unauthorized',
  doubt: /The clone is Supabase's: .*not known as of when/,
  kindOf: ([method, path]) => {
    if (method === 'POST') return 'create';
    if (method === 'DELETE') return 'destroy';
    return path === BRANCHES ? 'list' : 'other';
  },
  async answer([method = '', path = '', , body = ''], fake) {
    if (method === 'POST') {
      const { branch_name, with_data } = JSON.parse(body);
      if (with_data !== true) throw new Error('a branch without data');
      return branchOf(await fake.create(branch_name), fake);
    }
    if (path === BRANCHES) return [MAIN, ...fake.things.map((thing) => branchOf(thing, fake))];
    if (path === `/v1/projects/${REF}`) return { id: REF, ref: REF, name: 'shop' };
    if (path.endsWith('/api-keys')) return KEYS;
    if (path.endsWith('/config/database/pooler')) return [POOLER];
    const name = path.split('/').at(-1) ?? '';
    const thing = fake.things.find((each) => [idOf(each), refOf(each)].includes(name));
    if (thing === undefined) throw new Error('Branch not found');
    if (method === 'GET') return projectOf(thing);
    await fake.destroy((each) => each === thing);
    return { message: 'ok' };
  },
});
