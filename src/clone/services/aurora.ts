import type * as z from 'zod/mini';
import {
  type awsCluster,
  awsClusters,
  awsDoubt,
  awsExplain,
  awsInstances,
  awsOffered,
  awsParameterGroup,
  awsPlace,
  awsRelease,
  awsState,
  awsTags,
  firstOfAws,
} from './aws.ts';
import type { CloneService, ServiceClone, SourceFacts } from './clone-service.ts';
import { optionIf } from './service-cli.ts';

type Cluster = z.infer<typeof awsCluster>;
interface AuroraSource extends SourceFacts {
  readonly described: Cluster;
}

/** Amazon Aurora: a cluster that shares its pages with the source, and an instance in it. */
export const aurora: CloneService<AuroraSource> = {
  title: 'Amazon Aurora',
  program: 'aws',
  login: 'aws sso login',
  sourceForm: '[region/]cluster',
  strategy: 'copy-on-write',
  readyMs: 8 * 60_000,
  readsLazily: false,
  cost: "an instance of the writer's class while the run lasts, and the pages that the command changes",
  billing: { machine: 'hours of the class', storage: 'GB-months of the changed pages, I/O requests' },
  rights:
    'rds:DescribeDBClusters, rds:DescribeDBInstances, rds:RestoreDBClusterToPointInTime, rds:CreateDBInstance, rds:AddTagsToResource, rds:DeleteDBInstance, rds:DeleteDBCluster',
  signs: {
    host: /^([^.]+)\.cluster-[^.]+\.([^.]+)\.rds\.amazonaws\.com$/,
    procedure: 'aurora_version',
  },
  sourceIn: ([, name, region]) => `${region}/${name}`,
  async inspect(cli, source) {
    const call = ['rds', 'describe-db-clusters', '--db-cluster-identifier', source.at(-1) ?? ''];
    const { DBClusters } = await cli.json([...call, ...awsPlace(source)], awsClusters);
    const described = firstOfAws(DBClusters, source);
    const members = described.DBClusterMembers ?? [];
    const writer = members.find(({ IsClusterWriter }) => IsClusterWriter) ?? members[0];
    if (writer === undefined) return { described, instance: null, asOf: null };
    const which = ['--db-instance-identifier', writer.DBInstanceIdentifier];
    const { DBInstances } = await cli.json(
      ['rds', 'describe-db-instances', ...which, ...awsPlace(source)],
      awsInstances,
    );
    return { described, instance: DBInstances[0]?.DBInstanceClass ?? null, asOf: new Date().toISOString() };
  },
  async create(cli, { source, name }, { described }) {
    const { DBSubnetGroup, VpcSecurityGroups, DBClusterParameterGroup } = described;
    const scaling = described.ServerlessV2ScalingConfiguration;
    await cli.text([
      ...['rds', 'restore-db-cluster-to-point-in-time', '--restore-type', 'copy-on-write'],
      ...['--use-latest-restorable-time', '--source-db-cluster-identifier', described.DBClusterIdentifier],
      ...['--db-cluster-identifier', name, '--no-deletion-protection'],
      ...optionIf('--db-subnet-group-name', DBSubnetGroup),
      ...optionIf(
        '--vpc-security-group-ids',
        ...(VpcSecurityGroups ?? []).map((group) => group.VpcSecurityGroupId),
      ),
      ...optionIf('--db-cluster-parameter-group-name', DBClusterParameterGroup),
      ...optionIf(
        '--serverless-v2-scaling-configuration',
        scaling && `MinCapacity=${scaling.MinCapacity},MaxCapacity=${scaling.MaxCapacity}`,
      ),
      ...awsTags(name),
      ...awsPlace(source),
    ]);
  },
  async complete(cli, { source, name }, { described, instance }) {
    const cluster = ['--db-cluster-identifier', name, '--db-instance-identifier', name];
    const machine = ['--engine', described.Engine, '--db-instance-class', instance ?? 'db.serverless'];
    await cli.text([
      'rds',
      'create-db-instance',
      ...cluster,
      ...machine,
      ...awsTags(name),
      ...awsPlace(source),
    ]);
  },
  async list(cli, source) {
    const [{ DBClusters }, { DBInstances }] = await Promise.all([
      cli.json(['rds', 'describe-db-clusters', ...awsPlace(source)], awsClusters),
      cli.json(['rds', 'describe-db-instances', ...awsPlace(source)], awsInstances),
    ]);
    return DBClusters.map((each) => {
      const own = DBInstances.find(
        ({ DBClusterIdentifier }) => DBClusterIdentifier === each.DBClusterIdentifier,
      );
      return {
        id: each.DbClusterResourceId,
        name: each.DBClusterIdentifier,
        state: stateOf(each, own?.DBInstanceStatus),
        asOf: null,
        doubt: awsDoubt(each.DBClusterIdentifier, each.TagList),
        ...awsRelease(each),
        ...(each.Endpoint && { host: each.Endpoint }),
        ...(each.Port && { port: each.Port }),
      };
    });
  },
  // Roles and passwords are the source's.
  address: async (_, clone) => clone,
  async destroy(cli, { name }, source) {
    const { DBInstances } = await cli.json(
      ['rds', 'describe-db-instances', ...awsPlace(source)],
      awsInstances,
    );
    const members = DBInstances.filter(
      ({ DBClusterIdentifier, DBInstanceStatus }) =>
        DBClusterIdentifier === name && DBInstanceStatus !== 'deleting',
    );
    for (const { DBInstanceIdentifier: member } of members)
      await cli.text([
        ...['rds', 'delete-db-instance', '--db-instance-identifier', member, '--skip-final-snapshot'],
        ...awsPlace(source),
      ]);
    const which = ['--db-cluster-identifier', name, '--skip-final-snapshot'];
    await cli.text(['rds', 'delete-db-cluster', ...which, ...awsPlace(source)]);
  },
  upgrade: {
    offered: (cli, source, { described }) => awsOffered(cli, described, source),
    async order(cli, { name }, release, { source, facts: { described } }) {
      const group = awsParameterGroup(described.DBClusterParameterGroup, described.Engine, release);
      await cli.text([
        ...['rds', 'modify-db-cluster', '--db-cluster-identifier', name, '--engine-version', release],
        ...['--allow-major-version-upgrade', '--apply-immediately'],
        ...optionIf('--db-cluster-parameter-group-name', group.name),
        ...awsPlace(source),
      ]);
      return group.differences;
    },
    explain: (cli, clone, source, since) => awsExplain(cli, 'db-cluster', clone, source, since),
  },
};

function stateOf({ Status }: Cluster, instance: string | undefined): ServiceClone['state'] {
  const state = awsState(Status);
  if (state !== 'ready') return state;
  return instance === undefined ? 'incomplete' : awsState(instance);
}
