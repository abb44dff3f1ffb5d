import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { builtProgram } from '../helpers/service-programs.ts';
import { optionOf, serviceSuite } from './suite.ts';

const SOURCE = {
  id: '9cc10173-e9ea-4176-9dbc-a4cee4c4ff30',
  name: 'shop',
  engine: 'pg',
  version: '17',
  num_nodes: 1,
  region: 'fra1',
  status: 'online',
  size: 'db-s-2vcpu-4gb',
  storage_size_mib: 61_440,
  connection: { host: 'shop.db.ondigitalocean.com', port: 25060, user: 'doadmin', password: 'of-the-source' },
  created_at: '2026-01-01T00:00:00Z',
};
const YESTERDAY = new Date(Date.now() - 24 * 3_600_000).toISOString();

function databaseOf(thing: Thing, fake: FakeService) {
  const { id, name, host, port, database } = thing;
  const { username = '', password = '' } = database ? new URL(database.url) : {};
  return {
    ...SOURCE,
    id,
    name,
    status: fake.isReady(thing) ? 'online' : 'creating',
    connection: { host, port, user: username, password: decodeURIComponent(password) },
  };
}

const DATABASES = '/v2/databases';

await serviceSuite({
  service: 'digitalocean',
  billed: /^hours of the size \(db-s-2vcpu-4gb\), and by GB-months of the storage \(60 GB\)$/,
  of: SOURCE.id,
  program: 'doctl',
  real: await builtProgram('digitalocean'),
  async requests(args, send) {
    const [, verb, first = ''] = args;
    switch (verb) {
      case 'list':
        return (await send('GET', DATABASES)).databases;
      case 'backups':
        return (await send('GET', `${DATABASES}/${first}/backups`)).backups;
      case 'delete':
        return await send('DELETE', `${DATABASES}/${first}`);
      case 'fork': {
        const source = await send('GET', `${DATABASES}/${optionOf(args, '--restore-from-cluster-id')}`);
        const { name, size } = source.database as typeof SOURCE;
        const order = { name: first, size, backup_restore: { database_name: name } };
        return [(await send('POST', DATABASES, order)).database];
      }
      default:
        return [(await send('GET', `${DATABASES}/${first}`)).database];
    }
  },
  doubt: /The clone is DigitalOcean's: its data is (1 d|24)/,
  expired: 'Unable to authenticate you',
  kindOf: ([method, path]) => {
    if (method === 'POST') return 'create';
    if (method === 'DELETE') return 'destroy';
    return path === DATABASES ? 'list' : 'other';
  },
  async answer([method = '', path = '', , body = ''], fake) {
    const id = path.slice(DATABASES.length + 1);
    const all = () => [SOURCE, ...fake.things.map((thing) => databaseOf(thing, fake))];
    if (method === 'POST') {
      const { name, size, backup_restore } = JSON.parse(body);
      if (size !== SOURCE.size || backup_restore.database_name !== SOURCE.name) throw new Error('no fork');
      return { database: databaseOf(await fake.create(name), fake) };
    }
    if (method === 'DELETE') {
      await fake.destroy((thing) => thing.id === id);
      return {};
    }
    // There are no pages, although the program asks for the first one of 200.
    if (path === DATABASES) return { databases: all() };
    if (id === `${SOURCE.id}/backups`) return { backups: [{ size_gigabytes: 0.3, created_at: YESTERDAY }] };
    const database = all().find((each) => each.id === id);
    if (database === undefined) throw new Error('cluster not found');
    return { database };
  },
});
