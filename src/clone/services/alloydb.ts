import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { CloneService, ServiceCli, ServiceClone, Source, SourceFacts } from './clone-service.ts';
import { inProject } from './gcloud.ts';
import { notFound, optionIf } from './service-cli.ts';

const cluster = z.object({
  name: z.string(),
  uid: z.string(),
  state: z.string(),
  clusterType: z.optional(z.string()),
  networkConfig: z.optional(
    z.object({ network: z.optional(z.string()), allocatedIpRange: z.optional(z.string()) }),
  ),
  pscConfig: z.optional(z.object({ pscEnabled: z.optional(z.boolean()) })),
});
const instance = z.object({
  name: z.string(),
  state: z.string(),
  instanceType: z.string(),
  ipAddress: z.optional(z.string()),
  publicIpAddress: z.optional(z.string()),
  databaseFlags: z.optional(z.record(z.string(), z.unknown())),
  machineConfig: z.optional(
    z.object({ cpuCount: z.optional(z.number()), machineType: z.optional(z.string()) }),
  ),
  networkConfig: z.optional(
    z.object({
      enablePublicIp: z.optional(z.boolean()),
      authorizedExternalNetworks: z.optional(z.array(z.object({ cidrRange: z.string() }))),
    }),
  ),
  clientConnectionConfig: z.optional(
    z.object({ sslConfig: z.optional(z.object({ sslMode: z.optional(z.string()) })) }),
  ),
});

interface AlloySource extends SourceFacts {
  readonly described: z.infer<typeof cluster>;
  readonly primary: z.infer<typeof instance>;
}

function inRegion(source: Source): string[] {
  return ['--region', source[1] ?? '', ...inProject(source)];
}

/** The last part of a resource's name, and the part of its cluster. */
function nameOf({ name }: { readonly name: string }): { cluster: string; own: string } {
  const parts = name.split('/');
  return { cluster: parts[5] ?? '', own: parts.at(-1) ?? '' };
}

/** AlloyDB: a cluster that is restored to the present, and an instance of the primary's class in it. */
export const alloydb: CloneService<AlloySource> = {
  title: 'AlloyDB',
  program: 'gcloud',
  login: 'gcloud auth login',
  sourceForm: 'project/region/cluster',
  strategy: 'restore',
  readyMs: 20 * 60_000,
  readsLazily: false,
  cost: "an instance of the primary's class and a full copy of the storage, while the run lasts",
  billing: { machine: 'hours of the vCPUs and their memory', storage: 'GB-months of the data', byData: true },
  rights: 'roles/alloydb.admin',
  signs: { host: /\.alloydb(-psc)?\.goog\.?$/, role: 'alloydbsuperuser' },
  sourceIn: () => null,
  async inspect(cli, source) {
    const [, , name = ''] = source;
    const described = await cli.json(['alloydb', 'clusters', 'describe', name, ...inRegion(source)], cluster);
    if (described.pscConfig?.pscEnabled)
      throw new SafemigrateError(
        'CLONE',
        'A clone with Private Service Connect would need another endpoint.',
        {
          hint: 'Clone in another way. The target was not touched.',
        },
      );
    const instances = await instancesOf(cli, source, name);
    const primary = instances.find(({ instanceType }) => instanceType === 'PRIMARY');
    if (primary === undefined) throw notFound(alloydb, `primary instance in ${name}`);
    const { machineType, cpuCount } = primary.machineConfig ?? {};
    const machine = machineType ?? (cpuCount === undefined ? null : `${cpuCount} vCPUs`);
    return { described, primary, instance: machine, asOf: new Date().toISOString() };
  },
  async create(cli, { source, name }, { described, asOf }) {
    const { network, allocatedIpRange } = described.networkConfig ?? {};
    await cli.text([
      ...['alloydb', 'clusters', 'restore', name, '--async'],
      ...['--source-cluster', source[2] ?? '', '--point-in-time', asOf ?? ''],
      // Without it the network is the project's default one.
      ...optionIf('--network', network),
      ...optionIf('--allocated-ip-range-name', allocatedIpRange),
      ...inRegion(source),
    ]);
  },
  async complete(cli, { source, name }, { primary }) {
    const { machineConfig, networkConfig, databaseFlags, clientConnectionConfig } = primary;
    const flags = Object.entries(databaseFlags ?? {})
      .filter(([, value]) => typeof value === 'string')
      .map(([flag, value]) => `${flag}=${value}`);
    const networks = networkConfig?.authorizedExternalNetworks?.map(({ cidrRange }) => cidrRange) ?? [];
    await cli.text([
      ...['alloydb', 'instances', 'create', name, '--cluster', name, '--async'],
      ...['--instance-type', 'PRIMARY', '--availability-type', 'ZONAL'],
      ...optionIf('--cpu-count', machineConfig?.cpuCount?.toString()),
      ...optionIf('--machine-type', machineConfig?.machineType),
      // A value may have commas, which would divide the flags.
      ...(flags.length === 0 ? [] : ['--database-flags', `^;^${flags.join(';')}`]),
      ...optionIf('--ssl-mode', clientConnectionConfig?.sslConfig?.sslMode),
      ...(networkConfig?.enablePublicIp ? ['--assign-inbound-public-ip', 'ASSIGN_IPV4'] : []),
      ...(networks.length === 0 ? [] : ['--authorized-external-networks', networks.join(',')]),
      ...inRegion(source),
    ]);
  },
  async list(cli, source) {
    const [clusters, instances] = await Promise.all([
      cli.json(['alloydb', 'clusters', 'list', ...inRegion(source)], z.array(cluster)),
      instancesOf(cli, source, '-'),
    ]);
    return clusters.map((each) => {
      const name = nameOf(each).own;
      const own = instances.find((one) => nameOf(one).cluster === name);
      const host = own?.publicIpAddress ?? own?.ipAddress;
      return {
        id: each.uid,
        name,
        state: stateOf(each.state, own?.state),
        asOf: null,
        doubt: each.clusterType === 'SECONDARY' ? 'it is a secondary cluster' : null,
        ...(host && { host }),
      };
    });
  },
  // Roles and passwords are the source's.
  address: async (_, clone) => ({ ...clone, port: 5432 }),
  async destroy(cli, { name }, source) {
    // With its instances.
    await cli.text(['alloydb', 'clusters', 'delete', name, '--force', '--async', ...inRegion(source)]);
  },
};

function instancesOf(cli: ServiceCli, source: Source, cluster: string) {
  const call = ['alloydb', 'instances', 'list', '--cluster', cluster, ...inRegion(source)];
  return cli.json(call, z.array(instance));
}

function stateOf(state: string, own: string | undefined): ServiceClone['state'] {
  if (state === 'DELETING' || own === 'DELETING') return 'deleting';
  if (state === 'FAILED' || own === 'FAILED') return 'failed';
  if (state !== 'READY') return 'creating';
  if (own === undefined) return 'incomplete';
  return own === 'READY' ? 'ready' : 'creating';
}
