import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { optionOf, serviceSuite } from './suite.ts';

const SOURCE = {
  service_name: 'shop',
  service_type: 'pg',
  state: 'RUNNING',
  plan: 'business-4',
  cloud_name: 'google-europe-west1',
  disk_space_mb: 179_200,
  project_vpc_id: null,
  service_uri_params: {
    dbname: 'defaultdb',
    host: 'shop-my-project.b.aivencloud.com',
    port: '12691',
    user: 'avnadmin',
    password: 'of-the-source',
    sslmode: 'require',
  },
};
const YESTERDAY = new Date(Date.now() - 24 * 3_600_000).toISOString();

function serviceOf(thing: Thing, fake: FakeService) {
  const { name, host, port, database } = thing;
  const { username = '', password = '' } = database ? new URL(database.url) : {};
  const own = { host, port: String(port), user: username, password: decodeURIComponent(password) };
  return {
    ...SOURCE,
    service_name: name,
    state: fake.isReady(thing) ? 'RUNNING' : 'REBUILDING',
    service_uri_params: { ...SOURCE.service_uri_params, ...own },
  };
}

await serviceSuite({
  service: 'aiven',
  of: 'my-project/shop',
  program: 'avn',
  doubt: /The clone is Aiven's: its data is (1 d|24)/,
  expired: 'ERROR\tcommand failed: Error: Invalid token (status 403)',
  kindOf: ([, verb]) =>
    verb === 'create' ? 'create' : verb === 'terminate' ? 'destroy' : verb === 'list' ? 'list' : 'other',
  async answer(args, fake) {
    const [, verb, name = ''] = args;
    if (optionOf(args, '--project') !== 'my-project') throw new Error('another project');
    const all = () => [SOURCE, ...fake.things.map((thing) => serviceOf(thing, fake))];
    switch (verb) {
      case 'backup-list':
        return [{ backup_name: 'shop-0', backup_time: YESTERDAY, data_size: 774_144 }];
      case 'create':
        if (optionOf(args, '--disk-space-gib') !== '175') throw new Error('the disk is too small');
        await fake.create(name);
        return '';
      case 'terminate':
        await fake.destroy((thing) => thing.name === name);
        return '';
      case 'get':
        return all().find(({ service_name }) => service_name === name);
      default:
        return all();
    }
  },
});
