import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { serviceSuite } from './suite.ts';

const SOURCE = {
  id: '9cc10173-e9ea-4176-9dbc-a4cee4c4ff30',
  name: 'shop',
  engine: 'pg',
  status: 'online',
  size: 'db-s-2vcpu-4gb',
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

await serviceSuite({
  service: 'digitalocean',
  of: SOURCE.id,
  program: 'doctl',
  doubt: /The clone is DigitalOcean's: its data is (1 d|24)/,
  expired: 'Error: GET https://api.digitalocean.com/v2/databases: 401 Unable to authenticate you',
  kindOf: ([, verb]) =>
    verb === 'fork' ? 'create' : verb === 'delete' ? 'destroy' : verb === 'list' ? 'list' : 'other',
  async answer([, verb, first = ''], fake) {
    switch (verb) {
      case 'backups':
        return [{ size_gigabytes: 0.3, created_at: YESTERDAY }];
      case 'fork':
        return [databaseOf(await fake.create(first), fake)];
      case 'delete':
        await fake.destroy(({ id }) => id === first);
        return '';
      case 'get':
        return [SOURCE, ...fake.things.map((thing) => databaseOf(thing, fake))].filter(
          ({ id }) => id === first,
        );
      default:
        return [SOURCE, ...fake.things.map((thing) => databaseOf(thing, fake))];
    }
  },
});
