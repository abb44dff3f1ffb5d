import { expect } from 'vitest';
import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { optionOf, serviceSuite } from './suite.ts';

const PLACE = 'projects/my-project/locations/europe-west1/clusters';
const CLUSTER = {
  name: `${PLACE}/shop`,
  uid: '2f1c4a60-0000-4000-8000-000000000000',
  state: 'READY',
  clusterType: 'PRIMARY',
  databaseVersion: 'POSTGRES_16',
  networkConfig: { network: 'projects/123456789/global/networks/private' },
};
const PRIMARY = {
  name: `${PLACE}/shop/instances/primary`,
  uid: '9e3d4a60-0000-4000-8000-000000000000',
  state: 'READY',
  instanceType: 'PRIMARY',
  availabilityType: 'REGIONAL',
  ipAddress: '10.7.0.2',
  machineConfig: { cpuCount: 4, machineType: 'n2-highmem-4' },
  databaseFlags: { search_path: 'app,public', max_connections: '500' },
};

const KINDS = { restore: 'create', create: 'change', delete: 'destroy', list: 'list' } as const;
/** Clusters that have an instance by now. */
const members = new Set<string>();

function clusterOf({ name, id }: Thing) {
  return { ...CLUSTER, name: `${PLACE}/${name}`, uid: id };
}

function instanceOf(thing: Thing, fake: FakeService) {
  const ready = fake.isReady(thing);
  return {
    ...PRIMARY,
    name: `${PLACE}/${thing.name}/instances/${thing.name}`,
    state: ready ? 'READY' : 'CREATING',
    ipAddress: ready ? thing.host : undefined,
  };
}

await serviceSuite({
  service: 'alloydb',
  billed: /^hours of the vCPUs and their memory \(n2-highmem-4\), and by GB-months of the data \(\d.* MB\)$/,
  thorough: true,
  of: 'my-project/europe-west1/shop',
  program: 'gcloud',
  fixedPort: true,
  expired:
    'ERROR: (gcloud.alloydb.clusters.describe) There was a problem refreshing your current auth tokens',
  kindOf: ([, , verb = '']) => KINDS[verb as keyof typeof KINDS] ?? 'other',
  async answer(args, fake) {
    const [, noun, verb, name = ''] = args;
    switch (`${noun} ${verb}`) {
      case 'clusters describe':
        return CLUSTER;
      case 'clusters restore':
        expect(optionOf(args, '--network')).toBe(CLUSTER.networkConfig.network);
        expect(Date.parse(optionOf(args, '--point-in-time'))).toBeGreaterThan(Date.now() - 60_000);
        await fake.create(name);
        return { metadata: { verb: 'create' }, done: false };
      case 'instances create':
        expect(optionOf(args, '--database-flags')).toBe('^;^search_path=app,public;max_connections=500');
        members.add(name);
        return { metadata: { verb: 'create' }, done: false };
      case 'clusters delete':
        if (members.has(name) && !args.includes('--force')) throw new Error('the cluster has instances');
        await fake.destroy((thing) => thing.name === name);
        return { metadata: { verb: 'delete' }, done: false };
      case 'clusters list':
        return [CLUSTER, ...fake.things.map(clusterOf)];
      default: {
        const own = fake.things.filter((thing) => members.has(thing.name));
        return [PRIMARY, ...own.map((thing) => instanceOf(thing, fake))];
      }
    }
  },
});
