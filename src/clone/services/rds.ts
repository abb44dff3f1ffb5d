import type * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import {
  awsDoubt,
  awsExplain,
  type awsInstance,
  awsInstances,
  awsOffered,
  awsParameterGroup,
  awsPlace,
  awsRelease,
  awsState,
  awsTags,
  firstOfAws,
} from './aws.ts';
import type { CloneService, SourceFacts } from './clone-service.ts';
import { bytesOfGb, optionIf } from './service-cli.ts';

interface RdsSource extends SourceFacts {
  readonly described: z.infer<typeof awsInstance>;
}

/** Amazon RDS: an instance that is restored to the newest point in time. It reads its pages from S3 at their first use. */
export const rds: CloneService<RdsSource> = {
  title: 'Amazon RDS',
  program: 'aws',
  login: 'aws sso login',
  sourceForm: '[region/]instance',
  strategy: 'restore',
  readyMs: 15 * 60_000,
  readsLazily: true,
  cost: "an instance of the source's class with all of its storage, while the run lasts",
  billing: { machine: 'hours of the class', storage: 'GB-months of the storage' },
  rights:
    'rds:DescribeDBInstances, rds:RestoreDBInstanceToPointInTime, rds:AddTagsToResource, rds:DeleteDBInstance',
  signs: { host: /^([^.]+)\.(?!cluster-|proxy-)[^.]+\.([^.]+)\.rds\.amazonaws\.com$/, role: 'rds_superuser' },
  sourceIn: ([, name, region]) => `${region}/${name}`,
  async inspect(cli, source) {
    const call = ['rds', 'describe-db-instances', '--db-instance-identifier', source.at(-1) ?? ''];
    const { DBInstances } = await cli.json([...call, ...awsPlace(source)], awsInstances);
    const described = firstOfAws(DBInstances, source);
    const { DBInstanceClass: instance, AllocatedStorage, LatestRestorableTime } = described;
    const { DBClusterIdentifier } = described;
    if (DBClusterIdentifier)
      throw new SafemigrateError('CLONE', `${described.DBInstanceIdentifier} is an instance of Aurora.`, {
        hint: `Use --clone aurora, with SAFEMIGRATE_CLONE_OF=[region/]${DBClusterIdentifier}. The target was not touched.`,
      });
    const storageBytes = bytesOfGb(AllocatedStorage);
    return { described, instance, storageBytes, asOf: LatestRestorableTime ?? null };
  },
  async create(cli, { source, name }, { described }) {
    // Without these a restored instance gets the account's defaults, and is often not reachable.
    const { DBSubnetGroup, VpcSecurityGroups, DBParameterGroups, PubliclyAccessible } = described;
    await cli.text([
      ...['rds', 'restore-db-instance-to-point-in-time', '--use-latest-restorable-time'],
      ...['--source-db-instance-identifier', described.DBInstanceIdentifier],
      ...['--target-db-instance-identifier', name],
      ...['--db-instance-class', described.DBInstanceClass, '--no-multi-az', '--no-deletion-protection'],
      ...optionIf('--db-subnet-group-name', DBSubnetGroup?.DBSubnetGroupName),
      ...optionIf(
        '--vpc-security-group-ids',
        ...(VpcSecurityGroups ?? []).map((group) => group.VpcSecurityGroupId),
      ),
      ...optionIf('--db-parameter-group-name', DBParameterGroups?.[0]?.DBParameterGroupName),
      PubliclyAccessible ? '--publicly-accessible' : '--no-publicly-accessible',
      ...awsTags(name),
      ...awsPlace(source),
    ]);
  },
  async list(cli, source) {
    const { DBInstances } = await cli.json(
      ['rds', 'describe-db-instances', ...awsPlace(source)],
      awsInstances,
    );
    return DBInstances.filter(({ DBClusterIdentifier }) => !DBClusterIdentifier).map((each) => ({
      id: each.DbiResourceId,
      name: each.DBInstanceIdentifier,
      state: awsState(each.DBInstanceStatus),
      asOf: null,
      doubt: awsDoubt(each.DBInstanceIdentifier, each.TagList),
      ...awsRelease(each),
      ...(each.Endpoint?.Address && { host: each.Endpoint.Address }),
      ...(each.Endpoint?.Port && { port: each.Endpoint.Port }),
    }));
  },
  // Roles and passwords are the source's.
  address: async (_, clone) => clone,
  async destroy(cli, { name }, source) {
    const which = ['--db-instance-identifier', name, '--skip-final-snapshot', '--delete-automated-backups'];
    await cli.text(['rds', 'delete-db-instance', ...which, ...awsPlace(source)]);
  },
  upgrade: {
    offered: (cli, source, { described }) => awsOffered(cli, described, source),
    async order(cli, { name }, release, { source, facts: { described } }) {
      const own = described.DBParameterGroups?.[0]?.DBParameterGroupName;
      const group = awsParameterGroup(own, 'postgres', release);
      await cli.text([
        ...['rds', 'modify-db-instance', '--db-instance-identifier', name, '--engine-version', release],
        ...['--allow-major-version-upgrade', '--apply-immediately'],
        ...optionIf('--db-parameter-group-name', group.name),
        ...awsPlace(source),
      ]);
      return group.differences;
    },
    explain: (cli, clone, source, since) => awsExplain(cli, 'db-instance', clone, source, since),
  },
};
