import { afterEach, expect, test, vi } from 'vitest';
import type { ServiceCli } from '../../../src/clone/services/clone-service.ts';
import { cnpg } from '../../../src/clone/services/cnpg.ts';

const metadata = { name: 'shop', uid: 'a' };
const archive = { name: 'barman-cloud.cloudnative-pg.io', parameters: { barmanObjectName: 'store' } };
const spec = {
  instances: 3,
  imageName: 'postgresql:18',
  storage: { size: '10Gi' },
  walStorage: { size: '1Gi' },
  tablespaces: [{ name: 'fast', storage: { size: '1Gi' } }],
  enableSuperuserAccess: true,
  bootstrap: { initdb: { database: 'shop', owner: 'seller', secret: { name: 'seller' } } },
  postgresql: { parameters: { work_mem: '32MB' }, synchronous: { method: 'any', number: 1 } },
  backup: { volumeSnapshot: {}, retentionPolicy: '30d' },
  plugins: [{ ...archive, isWALArchiver: true }],
};
const elements = [
  { name: 's-data', type: 'PG_DATA' },
  { name: 's-wal', type: 'PG_WAL' },
  { name: 's-fast', type: 'PG_TABLESPACE', tablespaceName: 'fast' },
];
const nightly = {
  metadata: { name: 'nightly', uid: 'b' },
  spec: { cluster: { name: 'shop' }, method: 'volumeSnapshot' },
  status: { phase: 'completed', stoppedAt: '2026-01-01T00:00:00Z', snapshotBackupStatus: { elements } },
};
const order = {
  source: ['production', 'shop', 'nightly'],
  name: 'safemigrate-x',
  expiresAt: '2026-01-02T00:00:00Z',
  database: 'shop',
  user: 'seller',
};

/** A kubectl that knows these objects, by the first words of a call. */
function kubectl(objects: Record<string, object>) {
  const made: { spec: object }[] = [];
  const cli: ServiceCli = {
    json: async ([, what = ''], schema) => schema.parse(objects[what.split('.')[0] ?? '']),
    text: async (_, { input = '{}' } = {}) => {
      made.push(JSON.parse(input));
      return '';
    },
  };
  return { cli, made };
}

const everything = { verbs: ['*'], apiGroups: ['*'], resources: ['*'] };
const rights = (...resourceRules: object[]) => ({ '--raw': { status: { resourceRules } } });
const known = {
  ...rights(everything),
  clusters: { metadata, spec },
  backups: nightly,
  persistentvolumeclaims: { items: [] },
};

test('the clone of a cluster is like it, and writes nothing into its archive', async () => {
  const { cli, made } = kubectl(known);
  const facts = await cnpg.inspect(cli, order.source);
  expect(facts.asOf).toBe('2026-01-01T00:00:00Z');
  await cnpg.create(cli, order, facts);
  const reference = (name: string) => ({
    name,
    kind: 'VolumeSnapshot',
    apiGroup: 'snapshot.storage.k8s.io',
  });
  expect(made).toEqual([
    {
      apiVersion: 'postgresql.cnpg.io/v1',
      kind: 'Cluster',
      metadata: {
        name: order.name,
        namespace: 'production',
        labels: { 'app.kubernetes.io/managed-by': 'safemigrate' },
        annotations: { 'safemigrate/expires-at': order.expiresAt },
      },
      spec: {
        instances: 1,
        imageName: spec.imageName,
        storage: spec.storage,
        walStorage: spec.walStorage,
        tablespaces: spec.tablespaces,
        postgresql: { parameters: { work_mem: '32MB' } },
        enableSuperuserAccess: true,
        superuserSecret: { name: 'shop-superuser' },
        bootstrap: {
          recovery: {
            database: 'shop',
            owner: 'seller',
            secret: { name: 'seller' },
            source: 'origin',
            volumeSnapshots: {
              storage: reference('s-data'),
              walStorage: reference('s-wal'),
              tablespaceStorage: { fast: reference('s-fast') },
            },
          },
        },
        externalClusters: [
          {
            name: 'origin',
            plugin: { ...archive, parameters: { serverName: 'shop', barmanObjectName: 'store' } },
          },
        ],
      },
    },
  ]);
});

test.each([
  ['no spec.backup.volumeSnapshot', { backup: {} }, ['production', 'shop']],
  ['several volumes and no WAL archive', { plugins: [] }, ['production', 'shop']],
  ['nightly is not a completed backup', {}, ['production', 'other', 'nightly']],
])('a cluster is refused: %s', async (reason, change, source) => {
  const { cli } = kubectl({ ...known, clusters: { metadata, spec: { ...spec, ...change } } });
  await expect(cnpg.inspect(cli, source)).rejects.toThrow(reason);
});

test('a login that could not make or remove a clone is refused, and told its missing rights', async () => {
  const own = { apiGroups: ['postgresql.cnpg.io'], resources: ['clusters', 'backups'] };
  const reading = { verbs: ['get', 'list'], apiGroups: ['*'], resources: ['*'] };
  const { cli } = kubectl({ ...known, ...rights(reading, { ...own, verbs: ['create'] }) });
  await expect(cnpg.inspect(cli, order.source)).rejects.toThrow(
    'lacks rights in production: delete clusters; delete backups; delete volumesnapshots.',
  );
  const unknown = { status: { incomplete: true, resourceRules: [] } };
  const unsure = kubectl({ ...known, '--raw': unknown });
  expect(await cnpg.inspect(unsure.cli, order.source)).toBeDefined();
});

test('volumes that are loaded at their first use make a lazy clone', async () => {
  const annotations = { 'volume.kubernetes.io/storage-provisioner': 'ebs.csi.aws.com' };
  const items = [{ kind: 'PersistentVolumeClaim', metadata: { ...metadata, annotations } }];
  const { cli } = kubectl({ ...known, persistentvolumeclaims: { items } });
  expect(await cnpg.inspect(cli, order.source)).toMatchObject({ readsLazily: true });
});

afterEach(() => vi.unstubAllEnvs());

test('inside Kubernetes the clone is reached by the name of its service', async () => {
  const clone = { id: 'c', name: order.name, state: 'ready', asOf: null, doubt: null } as const;
  const { cli } = kubectl(known);
  vi.stubEnv('KUBERNETES_SERVICE_HOST', '10.0.0.1');
  expect(await cnpg.address(cli, clone, order)).toEqual({ host: 'safemigrate-x-rw.production', port: 5432 });
});
