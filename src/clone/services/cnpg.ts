import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type {
  CloneOrder,
  CloneService,
  ServiceCli,
  ServiceClone,
  Source,
  SourceFacts,
} from './clone-service.ts';
import { missingRights } from './cnpg-rights.ts';

const texts = z.optional(z.record(z.string(), z.unknown()));
const named = z.object({ name: z.string() });
const application = z.optional(
  z.object({ database: z.optional(z.string()), owner: z.optional(z.string()), secret: z.optional(named) }),
);
const volume = z.optional(z.looseObject({ size: z.optional(z.string()) }));
/** The parts of a cluster that decide on its clone. The others are copied as they are. */
const clusterSpec = z.looseObject({
  bootstrap: z.optional(z.object({ initdb: application, recovery: application, pg_basebackup: application })),
  backup: z.optional(
    z.object({
      volumeSnapshot: z.optional(z.unknown()),
      barmanObjectStore: z.optional(z.record(z.string(), z.unknown())),
    }),
  ),
  plugins: z.optional(
    z.array(
      z.object({
        name: z.string(),
        enabled: z.optional(z.boolean()),
        isWALArchiver: z.optional(z.boolean()),
        parameters: texts,
      }),
    ),
  ),
  postgresql: z.optional(z.record(z.string(), z.unknown())),
  enableSuperuserAccess: z.optional(z.boolean()),
  superuserSecret: z.optional(named),
  resources: z.optional(z.looseObject({ requests: z.optional(z.record(z.string(), z.unknown())) })),
  storage: volume,
  walStorage: volume,
  tablespaces: z.optional(z.array(z.looseObject({ storage: volume }))),
});
const status = z.optional(
  z.object({
    phase: z.optional(z.string()),
    conditions: z.optional(z.array(z.object({ type: z.string(), status: z.string() }))),
    stoppedAt: z.optional(z.string()),
    snapshotBackupStatus: z.optional(
      z.object({
        elements: z.optional(
          z.array(z.object({ name: z.string(), type: z.string(), tablespaceName: z.optional(z.string()) })),
        ),
      }),
    ),
  }),
);
const metadata = z.object({
  name: z.string(),
  uid: z.string(),
  labels: texts,
  annotations: texts,
  deletionTimestamp: z.optional(z.string()),
});
const cluster = z.object({ metadata, spec: clusterSpec });
const backup = z.object({
  metadata,
  spec: z.object({ cluster: named, method: z.optional(z.string()) }),
  status,
});
const parts = z.object({ items: z.array(z.object({ kind: z.string(), metadata, status })) });

type Spec = z.infer<typeof clusterSpec>;
type Backup = z.infer<typeof backup>;
type Part = z.infer<typeof parts>['items'][number];
interface ClusterSource extends SourceFacts {
  readonly spec: Spec;
  /** The backup that the user named; null if one is made. */
  readonly backup: Backup | null;
}

const CLUSTERS = 'clusters.postgresql.cnpg.io';
const BACKUPS = 'backups.postgresql.cnpg.io';
const SNAPSHOTS = 'volumesnapshots.snapshot.storage.k8s.io';
const LABEL = 'app.kubernetes.io/managed-by';
const OF_BACKUP = 'cnpg.io/backupName';
/** Its volumes load blocks from S3 at their first use if they are made from snapshots. */
const LAZY_PROVISIONER = 'ebs.csi.aws.com';
const PROVISIONER = 'volume.kubernetes.io/storage-provisioner';

/** Parts of the source that the clone has too. Without its archiver and backups, the clone writes nothing into the source's archive. */
const COPIED = [
  ...['imageName', 'imageCatalogRef', 'imagePullPolicy', 'imagePullSecrets', 'postgresUID', 'postgresGID'],
  ...['storage', 'walStorage', 'tablespaces', 'ephemeralVolumeSource', 'ephemeralVolumesSizeLimit'],
  ...['resources', 'affinity', 'priorityClassName', 'schedulerName', 'env', 'envFrom'],
  ...['seccompProfile', 'podSecurityContext', 'securityContext', 'projectedVolumeTemplate'],
  ...['serviceAccountName', 'serviceAccountTemplate', 'enableSuperuserAccess'],
];

/** CloudNativePG: a cluster on Kubernetes that begins with snapshots of the source's volumes. */
export const cnpg: CloneService<ClusterSource> = {
  title: 'CloudNativePG',
  program: 'kubectl',
  login: 'kubectl config use-context <context>',
  sourceForm: 'namespace/cluster[/backup]',
  strategy: 'restore',
  readyMs: 5 * 60_000,
  readsLazily: false,
  cost: "an instance with the source's resources and volumes of its sizes, while the run lasts",
  billing: { machine: 'hours of the nodes for its resources', storage: 'GB-months of the volumes' },
  rights: 'clusters and backups: get, list, create, delete; volumesnapshots: list, delete',
  signs: { host: /^([a-z0-9-]+)-(?:rw|ro|r)\.([a-z0-9-]+)(?:\.svc(?:\..+)?)?$/, role: 'streaming_replica' },
  sourceIn: ([, name, namespace]) => `${namespace}/${name}`,
  async inspect(cli, source) {
    const [, name = '', wanted = ''] = source;
    const { spec } = await cli.json(['get', CLUSTERS, name, ...where(source)], cluster);
    const given = wanted === '' ? null : await backupOf(cli, source, wanted);
    const obstacle = obstacleOf(spec, name, given);
    if (obstacle !== null)
      throw new SafemigrateError('CLONE', `The cluster ${name} cannot be cloned: ${obstacle}.`, {
        hint: 'The target was not touched.',
      });
    const missing = await missingRights(cli, source[0] ?? '');
    if (missing.length > 0)
      throw new SafemigrateError(
        'CLONE',
        `The login of kubectl lacks rights in ${source[0]}: ${missing.join('; ')}.`,
        { hint: 'templates/kubernetes-cnpg.yaml gives them. The target was not touched.' },
      );
    const claims = [
      'get',
      'persistentvolumeclaims',
      '--selector',
      `cnpg.io/cluster=${name}`,
      ...where(source),
    ];
    const { items } = await cli.json(claims, parts);
    const readsLazily = items.some(
      ({ metadata: { annotations } }) => annotations?.[PROVISIONER] === LAZY_PROVISIONER,
    );
    const asOf = given?.status?.stoppedAt ?? null;
    return { spec, backup: given, ...sizeOf(spec), asOf, readsLazily };
  },
  async create(cli, order, facts) {
    if (facts.backup !== null) return await restore(cli, order, facts.spec, facts.backup);
    const [, name = ''] = order.source;
    // A cold backup would stop the instance that it is taken of.
    await make(cli, order, 'Backup', { cluster: { name }, method: 'volumeSnapshot', online: true });
  },
  async complete(cli, order, { spec }) {
    await restore(cli, order, spec, await backupOf(cli, order.source, order.name));
  },
  async list(cli, source) {
    const kinds = [CLUSTERS, BACKUPS, SNAPSHOTS].join(',');
    const { items } = await cli.json(['get', kinds, ...where(source)], parts);
    const byName = new Map<string, Part[]>();
    for (const part of items) {
      const name = String(part.metadata.labels?.[OF_BACKUP] ?? part.metadata.name);
      byName.set(name, [...(byName.get(name) ?? []), part]);
    }
    return [...byName].map(([name, own]) => cloneOf(name, own));
  },
  // Its roles have the source's passwords: it is a copy, and the operator sets those that it manages from the source's secrets.
  async address(_, { name }, { source: [namespace = ''] }) {
    const service = `${name}-rw`;
    if (process.env.KUBERNETES_SERVICE_HOST !== undefined)
      return { host: `${service}.${namespace}`, port: 5432 };
    return { forward: ['port-forward', '--namespace', namespace, `service/${service}`, ':5432'] };
  },
  async destroy(cli, { name }, [namespace = '']) {
    const ending = ['--namespace', namespace, '--ignore-not-found', '--wait=false'];
    // Snapshots outlive their backup by default, and are found only through it: they are deleted first.
    const snapshots = ['delete', SNAPSHOTS, '--selector', `${OF_BACKUP}=${name}`, ...ending];
    await cli.text(snapshots);
    await cli.text(['delete', `${CLUSTERS},${BACKUPS}`, name, ...ending]);
    // A backup that was still running may have made some meanwhile.
    await cli.text(snapshots);
  },
};

/** Resources and volumes of one instance. */
function sizeOf({ resources, storage, walStorage, tablespaces = [] }: Spec) {
  const { cpu, memory } = resources?.requests ?? {};
  const volumes = [storage, walStorage, ...tablespaces.map((each) => each.storage)];
  const storageBytes = volumes.reduce((sum, each) => sum + bytesOfQuantity(each?.size ?? '0'), 0);
  return {
    instance: cpu && memory ? `${cpu} CPU, ${memory} of memory` : null,
    storageBytes: storageBytes || undefined,
  };
}

/** Reads a size as Kubernetes writes it, such as `10Gi`. @returns 0 for another form. */
function bytesOfQuantity(quantity: string): number {
  const [, number = '0', prefix = '', binary] = /^(\d+(?:\.\d+)?)([kKMGTP]?)(i?)$/.exec(quantity) ?? [];
  return Number(number) * (binary ? 1024 : 1000) ** ' KMGTP'.indexOf(prefix.toUpperCase() || ' ');
}

function where([namespace = '']: Source): string[] {
  return ['--namespace', namespace, '--output', 'json'];
}

function backupOf(cli: ServiceCli, source: Source, name: string): Promise<Backup> {
  return cli.json(['get', BACKUPS, name, ...where(source)], backup);
}

function obstacleOf(spec: Spec, name: string, given: Backup | null): string | null {
  if (given === null && !spec.backup?.volumeSnapshot)
    return 'it has no spec.backup.volumeSnapshot, by which a snapshot could be taken';
  const fits = given?.spec.cluster.name === name && given.spec.method === 'volumeSnapshot';
  if (given !== null && (!fits || given.status?.phase !== 'completed'))
    return `${given.metadata.name} is not a completed backup of it by volume snapshots`;
  // Without WAL, PostgreSQL recovers as after a crash, which needs all files as of one moment.
  if ((spec.walStorage || spec.tablespaces?.length) && archiveOf(spec, name) === undefined)
    return 'it has several volumes and no WAL archive, so that their snapshots do not fit together';
  return null;
}

/** The source's WAL archive, from which the clone completes the snapshots; undefined if it has none. */
function archiveOf(spec: Spec, serverName: string): object | undefined {
  const archiver = spec.plugins?.find(({ isWALArchiver, enabled }) => isWALArchiver && enabled !== false);
  const store = spec.backup?.barmanObjectStore;
  if (archiver) {
    const { name, parameters } = archiver;
    return { name: 'origin', plugin: { name, parameters: { serverName, ...parameters } } };
  }
  return store && { name: 'origin', barmanObjectStore: { serverName, ...store } };
}

/** Creates the cluster from the snapshots of a backup. */
async function restore(cli: ServiceCli, order: CloneOrder, spec: Spec, { status }: Backup): Promise<void> {
  const [, source = ''] = order.source;
  const archive = archiveOf(spec, source);
  const { initdb, recovery, pg_basebackup } = spec.bootstrap ?? {};
  const { database = 'app', owner = database, secret } = initdb ?? recovery ?? pg_basebackup ?? {};
  const snapshots = status?.snapshotBackupStatus?.elements ?? [];
  const reference = ({ name }: { name: string }) => ({
    name,
    kind: 'VolumeSnapshot',
    apiGroup: 'snapshot.storage.k8s.io',
  });
  const [storage, walStorage] = ['PG_DATA', 'PG_WAL'].map((wanted) => {
    const found = snapshots.find(({ type }) => type === wanted);
    return found && reference(found);
  });
  const tablespaces = snapshots.flatMap((each) =>
    each.tablespaceName ? [[each.tablespaceName, reference(each)] as const] : [],
  );
  // Its only instance would wait for synchronous standbys for ever.
  const { synchronous: _, syncReplicaElectionConstraint: __, ...postgresql } = spec.postgresql ?? {};
  await make(cli, order, 'Cluster', {
    ...Object.fromEntries(COPIED.flatMap((part) => (part in spec ? [[part, spec[part]]] : []))),
    instances: 1,
    postgresql,
    superuserSecret: spec.enableSuperuserAccess
      ? (spec.superuserSecret ?? { name: `${source}-superuser` })
      : undefined,
    bootstrap: {
      recovery: {
        // The operator sets the owner's password, and makes up one if it is given no secret.
        database,
        owner,
        secret: secret ?? { name: `${source}-app` },
        source: archive && 'origin',
        volumeSnapshots: {
          storage,
          walStorage,
          tablespaceStorage: tablespaces.length === 0 ? undefined : Object.fromEntries(tablespaces),
        },
      },
    },
    externalClusters: archive && [archive],
  });
}

/** Creates an object with our mark. */
async function make(cli: ServiceCli, order: CloneOrder, kind: string, spec: object): Promise<void> {
  const { source, name, expiresAt } = order;
  const annotations = { 'safemigrate/expires-at': expiresAt };
  const marked = { name, namespace: source[0], labels: { [LABEL]: 'safemigrate' }, annotations };
  const object = { apiVersion: 'postgresql.cnpg.io/v1', kind, metadata: marked, spec };
  await cli.text(['create', '--filename', '-'], { input: JSON.stringify(object) });
}

function cloneOf(name: string, own: readonly Part[]): ServiceClone {
  const of = (kind: string) => own.find((part) => part.kind === kind);
  const [first] = own;
  const isOurs = own.every(
    ({ kind, metadata: { labels } }) => kind === 'VolumeSnapshot' || labels?.[LABEL] === 'safemigrate',
  );
  return {
    id: first?.metadata.uid ?? '',
    name,
    state: own.every(({ metadata: { deletionTimestamp } }) => deletionTimestamp)
      ? 'deleting'
      : stateOf(of('Cluster'), of('Backup')),
    asOf: of('Backup')?.status?.stoppedAt ?? null,
    doubt: isOurs ? null : `it lacks the label ${LABEL}=safemigrate`,
  };
}

function stateOf(made: Part | undefined, saved: Part | undefined): ServiceClone['state'] {
  if (made !== undefined) {
    const ready = made.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
    if (ready) return 'ready';
    return /unrecoverable|invalid|cannot proceed|unable/i.test(made.status?.phase ?? '')
      ? 'failed'
      : 'creating';
  }
  const phase = saved?.status?.phase ?? '';
  if (phase === 'completed') return 'incomplete';
  return /failed|invalid/.test(phase) ? 'failed' : 'creating';
}
