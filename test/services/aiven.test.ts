import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { realProgram } from '../helpers/service-programs.ts';
import { serviceSuite } from './suite.ts';

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

const SERVICES = '/v1/project/my-project/service';

await serviceSuite({
  service: 'aiven',
  billed: /^hours of the plan \(business-4\), and by hours of a disk beyond the plan's \(175 GB\)$/,
  of: 'my-project/shop',
  program: 'avn',
  real: await realProgram('aiven'),
  doubt: /The clone is Aiven's: its data is (1 d|24)/,
  expired: 'Invalid token',
  kindOf: ([method, path]) => {
    if (method === 'POST') return 'create';
    if (method === 'DELETE') return 'destroy';
    return path === SERVICES ? 'list' : 'other';
  },
  async answer([method = '', path = '', , body = ''], fake) {
    const name = path.slice(SERVICES.length + 1);
    const all = () => [SOURCE, ...fake.things.map((thing) => serviceOf(thing, fake))];
    switch (method) {
      case 'POST': {
        const { service_name, disk_space_mb, user_config } = JSON.parse(body);
        if (disk_space_mb !== 179_200) throw new Error('the disk is too small');
        if (user_config.service_to_fork_from !== 'shop') throw new Error('no fork');
        return { service: serviceOf(await fake.create(service_name), fake) };
      }
      case 'DELETE':
        await fake.destroy((thing) => thing.name === name);
        return {};
    }
    if (path === SERVICES) return { services: all() };
    if (path.endsWith('/service-types/pg')) return { user_config_schema: { type: 'object', properties: {} } };
    if (name === 'shop/backups')
      return { backups: [{ backup_name: 'shop-0', backup_time: YESTERDAY, data_size: 774_144 }] };
    const service = all().find(({ service_name }) => service_name === name);
    if (service === undefined) throw new Error('Service does not exist');
    return { service };
  },
});
