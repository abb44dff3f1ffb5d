import { expect, test } from 'vitest';
import type { CallInput } from '../../src/clone/services/clone-service.ts';
import { tiger } from '../../src/clone/services/tiger.ts';
import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { builtProgram } from '../helpers/service-programs.ts';
import { optionOf, serviceSuite } from './suite.ts';

const SOURCE = {
  service_id: 'kd9w2xp4mz',
  project_id: 'rp1pz7uyae',
  name: 'shop',
  status: 'READY',
  created: '2026-01-01T00:00:00Z',
  region_code: 'eu-central-1',
  service_type: 'TIMESCALEDB',
  resources: [{ id: '1', spec: { cpu_millis: 2_000, memory_gbs: 8 } }],
  endpoint: { host: 'kd9w2xp4mz.rp1pz7uyae.tsdb.cloud.timescale.com', port: 32_625 },
};

function serviceOf(thing: Thing, fake: FakeService) {
  const { id, name, host, port, createdAt } = thing;
  return {
    ...SOURCE,
    service_id: id,
    name,
    created: createdAt,
    status: fake.isReady(thing) ? 'READY' : 'CONFIGURING',
    endpoint: { host, port },
    forked_from: { project_id: SOURCE.project_id, service_id: SOURCE.service_id, is_standby: false },
  };
}

const SERVICES = `/projects/${SOURCE.project_id}/services`;
const KEY = {
  created: SOURCE.created,
  name: 'tests',
  public_key: 'key',
  issuing_user: { id: 'user', name: 'user', email: 'user@example.com' },
  project: { id: SOURCE.project_id, name: 'project', plan_type: 'performance' },
};

await serviceSuite({
  service: 'tiger',
  billed: /^hours of the CPU and memory \(2 CPU, 8 GB\), and by GB-hours of the storage$/,
  of: SOURCE.service_id,
  program: 'tiger',
  real: await builtProgram('tiger'),
  async requests(args, send) {
    const [, verb, id] = args;
    switch (verb) {
      case 'fork': {
        const order = { fork_strategy: args.includes('--now') ? 'NOW' : '', name: optionOf(args, '--name') };
        return await send('POST', `${SERVICES}/${id}/forkService`, order);
      }
      case 'delete':
        if (!args.includes('--confirm')) throw new Error('TTY not detected');
        return await send('DELETE', `${SERVICES}/${id}`);
      default:
        return await send('GET', SERVICES);
    }
  },
  expired: 'invalid or expired credentials',
  kindOf: ([method, path = '']) => {
    if (path.endsWith('/forkService')) return 'create';
    if (method === 'DELETE') return 'destroy';
    return path === SERVICES ? 'list' : 'other';
  },
  async answer([method = '', path = '', , body = ''], fake) {
    if (path === '/auth/info') return { type: 'apiKey', apiKey: KEY };
    const [id, action] = path.slice(SERVICES.length + 1).split('/');
    if (action === 'forkService') {
      const { fork_strategy, name } = JSON.parse(body);
      if (id !== SOURCE.service_id || fork_strategy !== 'NOW') throw new Error('it is another fork');
      return serviceOf(await fake.create(name), fake);
    }
    if (method === 'DELETE') {
      await fake.destroy((thing) => thing.id === id);
      return {};
    }
    if (path === SERVICES) return [SOURCE, ...fake.things.map((thing) => serviceOf(thing, fake))];
    throw new Error('service not found');
  },
});

test('the administrator of a fork gets a password that no list of processes and no file has', async () => {
  const calls: [readonly string[], CallInput | undefined][] = [];
  const cli = {
    async text(args: readonly string[], given?: CallInput) {
      calls.push([args, given]);
      return '';
    },
    json: () => Promise.reject(new Error('nothing to read')),
  };
  const clone = { id: 'abc', name: 'fork', state: 'ready', asOf: null, doubt: null } as const;
  const order = { source: ['kd9w2xp4mz'], name: 'fork', expiresAt: '', database: 'tsdb' };
  const { password } = await tiger.address(cli, clone, { ...order, user: 'tsdbadmin' });
  const storage = ['--password-storage', 'none'];
  expect(calls).toEqual([
    [['service', 'update-password', 'abc', ...storage], { env: { TIGER_NEW_PASSWORD: password } }],
  ]);
  expect(password?.length).toBeGreaterThan(20);
});
