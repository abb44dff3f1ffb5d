import { appendFileSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { PROGRAM, runProgram, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { readReport } from '../helpers/read-report.ts';
import { skipReason } from '../helpers/requirements.ts';
import { optionOf, serviceSuite } from './suite.ts';

interface Manifest {
  readonly kind: string;
  readonly metadata: { readonly name: string; readonly labels: Record<string, string> };
  readonly spec: Record<string, unknown>;
}

const SOURCE = {
  apiVersion: 'postgresql.cnpg.io/v1',
  kind: 'Cluster',
  metadata: { name: 'shop', uid: 'uid-shop', labels: {} },
  spec: {
    instances: 3,
    imageName: 'ghcr.io/cloudnative-pg/postgresql:18',
    bootstrap: { initdb: { database: 'shop', owner: 'shop' } },
    storage: { size: '100Gi', storageClass: 'fast' },
    walStorage: { size: '10Gi', storageClass: 'fast' },
    resources: { requests: { cpu: '2', memory: '8Gi' }, limits: { memory: '8Gi' } },
    postgresql: { parameters: { work_mem: '32MB' }, synchronous: { method: 'any', number: 1 } },
    backup: { volumeSnapshot: { className: 'snapshots' } },
    plugins: [
      {
        name: 'barman-cloud.cloudnative-pg.io',
        isWALArchiver: true,
        parameters: { barmanObjectName: 'store' },
      },
    ],
  },
  status: { conditions: [{ type: 'Ready', status: 'True' }], phase: 'Cluster in healthy state' },
};

/** Fields of the custom resource definitions, as far as a clone may have them. The server refuses others. */
const FIELDS: Record<string, readonly string[]> = {
  Backup: ['cluster.name', 'method', 'online'],
  Cluster: [
    ...['instances', 'imageName', 'storage', 'walStorage', 'resources', 'postgresql'],
    ...['bootstrap.recovery.database', 'bootstrap.recovery.owner', 'bootstrap.recovery.secret.name'],
    ...['bootstrap.recovery.source', 'bootstrap.recovery.volumeSnapshots.storage'],
    ...['bootstrap.recovery.volumeSnapshots.walStorage', 'externalClusters'],
  ],
};

function unknownFields(value: unknown, known: readonly string[], path = ''): string[] {
  if (known.includes(path)) return [];
  if (typeof value !== 'object' || value === null) return [path];
  return Object.entries(value).flatMap(([name, each]) =>
    unknownFields(each, known, path === '' ? name : `${path}.${name}`),
  );
}

const template = (name: string) => readFileSync(new URL(`../../templates/${name}`, import.meta.url), 'utf8');

const ROLE: { rules: { apiGroups: string[]; resources: string[]; verbs: string[] }[] } = parseAllDocuments(
  template('kubernetes-cnpg.yaml'),
)
  .map((document) => document.toJS())
  .find(({ kind }) => kind === 'Role');

/** Refuses what the Role in templates/ does not allow. */
function demand(verb: string, resources: string): void {
  for (const resource of resources.split(',')) {
    const [name = '', ...group] = resource.split('.');
    const allowed = ROLE.rules.some(
      ({ apiGroups, resources, verbs }) =>
        apiGroups.includes(group.join('.')) && resources.includes(name) && verbs.includes(verb),
    );
    if (!allowed) throw new Error(`Error from server (Forbidden): cannot ${verb} resource "${resource}"`);
  }
}

/** Names of services in the cluster, for a Job. */
let hosts = '';
const clusters = new Map<string, Manifest>();
/** Snapshots of volumes by the backup that they belong to. They outlive it. */
const snapshots = new Set<string>();

function partsOf(thing: Thing, fake: FakeService): object[] {
  const { id, name, labels, createdAt: stoppedAt } = thing;
  const metadata = { name, uid: id, labels };
  const made = { kind: 'Cluster', metadata, status: SOURCE.status };
  if (thing.isForeign) return [made];
  const elements = [
    { name, type: 'PG_DATA' },
    { name: `${name}-wal`, type: 'PG_WAL' },
  ];
  const status = fake.isReady(thing)
    ? { phase: 'completed', stoppedAt, snapshotBackupStatus: { elements } }
    : { phase: 'running' };
  const spec = { cluster: { name: 'shop' }, method: 'volumeSnapshot' };
  return [{ kind: 'Backup', metadata, spec, status }, ...(clusters.has(name) ? [made] : [])];
}

async function created({ kind, metadata: { name, labels }, spec }: Manifest, fake: FakeService) {
  demand('create', kind === 'Cluster' ? 'clusters.postgresql.cnpg.io' : 'backups.postgresql.cnpg.io');
  const unknown = unknownFields(spec, FIELDS[kind] ?? []);
  if (unknown.length > 0) throw new Error(`strict decoding error: unknown field "spec.${unknown[0]}"`);
  if (kind === 'Cluster') {
    const made = fake.things.find((thing) => thing.name === name);
    if (hosts !== '') appendFileSync(hosts, `${made?.host} ${name}-rw.production\n`);
    return void clusters.set(name, { kind, metadata: { name, labels }, spec });
  }
  snapshots.add(name);
  await fake.create(name, labels);
}

const fake = await serviceSuite({
  service: 'cnpg',
  fixedPort: true,
  billed:
    /^hours of the nodes for its resources \(2 CPU, 8Gi of memory\), and by GB-months of the volumes \(110 GB\)$/,
  of: 'production/shop',
  program: 'kubectl',
  expired: 'error: You must be logged in to the server (Unauthorized)',
  runsOn: ([verb]) => verb === 'port-forward',
  kindOf: ([verb, what = '']) => {
    if (what === '--raw') return 'other';
    if (verb === 'create') return 'create';
    if (verb === 'delete') return 'destroy';
    return what.includes(',') ? 'list' : 'other';
  },
  async answer(args, fake, input) {
    const [verb, what = '', name = ''] = args;
    const selector = optionOf(args, '--selector');
    switch (verb) {
      case 'port-forward': {
        const [, , , service = ''] = args;
        const thing = fake.things.find((each) => `service/${each.name}-rw` === service);
        return `Forwarding from 127.0.0.1:${thing?.port} -> 5432\nForwarding from [::1]:${thing?.port} -> 5432\n`;
      }
      case 'create':
        if (what === '--raw') return { status: { incomplete: false, resourceRules: ROLE.rules } };
        await created(JSON.parse(input), fake);
        return 'created';
      case 'delete':
        demand('delete', what);
        if (selector !== '') return snapshots.delete(selector.replace('cnpg.io/backupName=', ''));
        clusters.delete(name);
        await fake.destroy((thing) => thing.name === name);
        return 'deleted';
      default:
        demand(selector !== '' || what.includes(',') ? 'list' : 'get', what);
        if (what === 'persistentvolumeclaims') return { items: [] };
        if (what.startsWith('clusters') && name === 'shop') return SOURCE;
        if (what.includes(','))
          return { items: [SOURCE, ...fake.things.flatMap((each) => partsOf(each, fake))] };
        return fake.things.flatMap((each) => (each.name === name ? partsOf(each, fake) : []))[0];
    }
  },
});

test.skipIf(skipReason(process.getuid?.() === 0 ? null : 'only root can give a Job names of hosts')).each([
  ['kubernetes-job.yaml', 0],
  ['argocd-presync.yaml', 1],
])('the Job of %s clones the cluster, inside Kubernetes', async (file, verb) => {
  const [container] = parse(template(file)).spec.template.spec.containers;
  const { hostname, ...target } = hostAndRest(fake.target?.url ?? '');
  const folder = temporaryFolder();
  hosts = path.join(folder, 'hosts');
  writeFileSync(hosts, `127.0.0.1 localhost\n${hostname} shop-rw.production\n`);
  const mounts: string[] = container.volumeMounts.map(({ mountPath }: { mountPath: string }) => mountPath);
  for (const mount of mounts) mkdirSync(path.join(folder, mount));
  const inFolder = (text: string) =>
    mounts.some((mount) => `${text}/`.startsWith(`${mount}/`)) ? path.join(folder, text) : text;
  const variables = container.env.map(({ name, value }: { name: string; value?: string }) => [
    name,
    value === undefined ? target.url : inFolder(value),
  ]);
  const words: string[] = container.args.map(inFolder).toSpliced(verb, 0, '--clone', 'cnpg');
  const options = words.slice(0, words.indexOf('--') + 1);
  const migration = sqlCommand('ALTER TABLE items ADD COLUMN name text');
  const withHosts = ['unshare', '--mount', 'sh', '-c', 'mount --bind "$0" /etc/hosts && exec "$@"', hosts];
  const { exitCode, stderr } = await runProgram([...withHosts, ...PROGRAM, ...options, ...migration], {
    env: { ...Object.fromEntries(variables), KUBERNETES_SERVICE_HOST: '10.96.0.1' },
  });
  hosts = '';
  expect(exitCode, stderr).toBe(0);
  const report = options.find((word) => word.endsWith('.json')) ?? '';
  const { clone, schema, apply } = readReport(readFileSync(report, 'utf8'));
  expect(clone).toMatchObject({ method: 'cnpg', containment: 'other-server' });
  expect(schema?.changes).toHaveLength(1);
  expect(apply?.outcome).toBe(verb === 0 ? undefined : 'applied');
  // The clone was reached by the name of its service.
  expect(fake.calls('other').filter(([word]) => word === 'port-forward')).toEqual([]);
  expect(fake.things.filter(({ isForeign }) => !isForeign)).toEqual([]);
});

/** The URL with the host of the cluster's service, and the host that it had. */
function hostAndRest(text: string): { hostname: string; url: string } {
  const url = new URL(text);
  const { hostname } = url;
  url.hostname = 'shop-rw.production';
  return { hostname, url: url.href };
}

afterAll(() => expect([...clusters.keys(), ...snapshots]).toEqual([]));
