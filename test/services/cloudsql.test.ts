import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { serviceSuite } from './suite.ts';

const SOURCE = {
  kind: 'sql#instance',
  name: 'shop',
  state: 'RUNNABLE',
  createTime: '2026-01-01T00:00:00.000Z',
  settings: { tier: 'db-custom-2-7680', dataDiskSizeGb: '100', deletionProtectionEnabled: true },
  ipAddresses: [{ ipAddress: '203.0.113.7', type: 'PRIMARY' }],
};

function instanceOf(thing: Thing, fake: FakeService) {
  const ready = fake.isReady(thing);
  return {
    ...SOURCE,
    name: thing.name,
    state: ready ? 'RUNNABLE' : 'PENDING_CREATE',
    createTime: thing.createdAt,
    ipAddresses: ready ? [{ ipAddress: thing.host, type: 'PRIMARY' }] : [],
  };
}

const KINDS = { clone: 'create', patch: 'change', delete: 'destroy', list: 'list' } as const;
const unprotected = new Set<string>();

await serviceSuite({
  service: 'cloudsql',
  billed: /^hours of the tier \(db-custom-2-7680\), and by GB-months of the disk \(100 GB\)$/,
  of: 'my-project/shop',
  program: 'gcloud',
  fixedPort: true,
  expired: 'ERROR: (gcloud.sql.instances.describe) There was a problem refreshing your current auth tokens',
  kindOf: ([, , verb = '']) => KINDS[verb as keyof typeof KINDS] ?? 'other',
  async answer([, , verb, first = '', second = ''], fake) {
    switch (verb) {
      case 'describe':
        return {
          ...SOURCE,
          name: first,
          settings: { ...SOURCE.settings, deletionProtectionEnabled: !unprotected.has(first) },
        };
      case 'patch':
        unprotected.add(first);
        return {};
      case 'clone':
        await fake.create(second);
        return { operationType: 'CLONE', status: 'PENDING' };
      case 'delete':
        if (!unprotected.has(first)) throw new Error('The instance is protected');
        await fake.destroy(({ name }) => name === first);
        return { operationType: 'DELETE', status: 'PENDING' };
      default:
        return [SOURCE, ...fake.things.map((thing) => instanceOf(thing, fake))];
    }
  },
});
