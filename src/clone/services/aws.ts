import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { ServiceCli, ServiceClone, Source, UpgradeMessages } from './clone-service.ts';

/** The parts of AWS that RDS and Aurora share. */
/** The version that a server has, and the one that was ordered. */
const versions = {
  EngineVersion: z.optional(z.string()),
  PendingModifiedValues: z.optional(z.nullable(z.object({ EngineVersion: z.optional(z.string()) }))),
};
const tags = z.optional(z.array(z.object({ Key: z.string(), Value: z.optional(z.string()) })));

export const awsInstance = z.object({
  DBInstanceIdentifier: z.string(),
  DbiResourceId: z.string(),
  DBInstanceStatus: z.string(),
  DBInstanceClass: z.string(),
  Engine: z.optional(z.string()),
  ...versions,
  AllocatedStorage: z.optional(z.number()),
  DBClusterIdentifier: z.optional(z.nullable(z.string())),
  Endpoint: z.optional(z.object({ Address: z.optional(z.string()), Port: z.optional(z.number()) })),
  DBSubnetGroup: z.optional(z.object({ DBSubnetGroupName: z.optional(z.string()) })),
  VpcSecurityGroups: z.optional(z.array(z.object({ VpcSecurityGroupId: z.string() }))),
  DBParameterGroups: z.optional(z.array(z.object({ DBParameterGroupName: z.string() }))),
  PubliclyAccessible: z.optional(z.boolean()),
  LatestRestorableTime: z.optional(z.string()),
  TagList: tags,
});
export const awsInstances = z.object({ DBInstances: z.array(awsInstance) });

export const awsCluster = z.object({
  DBClusterIdentifier: z.string(),
  DbClusterResourceId: z.string(),
  Status: z.string(),
  Engine: z.string(),
  ...versions,
  Endpoint: z.optional(z.string()),
  Port: z.optional(z.number()),
  DBSubnetGroup: z.optional(z.string()),
  VpcSecurityGroups: z.optional(z.array(z.object({ VpcSecurityGroupId: z.string() }))),
  DBClusterParameterGroup: z.optional(z.string()),
  DBClusterMembers: z.optional(
    z.array(z.object({ DBInstanceIdentifier: z.string(), IsClusterWriter: z.optional(z.boolean()) })),
  ),
  ServerlessV2ScalingConfiguration: z.optional(
    z.object({ MinCapacity: z.number(), MaxCapacity: z.number() }),
  ),
  TagList: tags,
});
export const awsClusters = z.object({ DBClusters: z.array(awsCluster) });

const engineVersions = z.object({
  DBEngineVersions: z.array(
    z.object({ ValidUpgradeTarget: z.optional(z.array(z.object({ EngineVersion: z.string() }))) }),
  ),
});
const events = z.object({ Events: z.array(z.object({ Message: z.optional(z.string()) })) });
const logPortion = z.object({ LogFileData: z.optional(z.nullable(z.string())) });
const logFiles = z.object({ DescribeDBLogFiles: z.array(z.object({ LogFileName: z.string() })) });

/** The tag with which a clone is marked, besides its name. */
const TAG = 'safemigrate';

/** Arguments that every call ends with. */
export function awsPlace(source: Source): string[] {
  const region = source.length > 1 ? source[0] : undefined;
  return [...(region === undefined ? [] : ['--region', region]), '--output', 'json'];
}

export function awsTags(name: string): string[] {
  return ['--tags', `Key=${TAG},Value=${name}`];
}

/** Says why it is not ours: a clone of ours has our tag beside our name. */
export function awsDoubt(name: string, list: z.infer<typeof tags>): string | null {
  return list?.some(({ Key, Value }) => Key === TAG && Value === name) ? null : `it lacks the tag ${TAG}`;
}

export function awsState(status: string): ServiceClone['state'] {
  if (status === 'available') return 'ready';
  if (status === 'deleting') return 'deleting';
  return /fail|error|incompatible|storage-full/.test(status) ? 'failed' : 'creating';
}

export function firstOfAws<T>(found: readonly T[], source: Source): T {
  const [first] = found;
  if (first !== undefined) return first;
  throw new SafemigrateError('CLONE', `AWS has no ${source.at(-1)} to clone.`, {
    hint: 'SAFEMIGRATE_CLONE_OF [region/]name names it. The target was not touched.',
  });
}

interface EngineFacts {
  readonly Engine?: string | undefined;
  readonly EngineVersion?: string | undefined;
  readonly PendingModifiedValues?: { readonly EngineVersion?: string | undefined } | null | undefined;
}

/** The facts about the version of a clone, for a list. */
export function awsRelease({ EngineVersion, PendingModifiedValues }: EngineFacts) {
  return { release: EngineVersion, isUpgradePending: PendingModifiedValues?.EngineVersion !== undefined };
}

/** Lists the releases to which AWS would upgrade a server of this version, which it may no longer offer for new servers. */
export async function awsOffered(
  cli: ServiceCli,
  { Engine = 'postgres', EngineVersion = '' }: EngineFacts,
  source: Source,
): Promise<string[]> {
  const call = [
    'rds',
    'describe-db-engine-versions',
    '--engine',
    Engine,
    '--engine-version',
    EngineVersion,
    '--include-all',
  ];
  const { DBEngineVersions } = await cli.json([...call, ...awsPlace(source)], engineVersions);
  const targets = DBEngineVersions.flatMap(({ ValidUpgradeTarget }) => ValidUpgradeTarget ?? []);
  return targets.map(({ EngineVersion: release }) => release);
}

/**
 * Returns the parameter group for the new version, if the clone has another one than AWS's default: such a group fits the old version only.
 * @param family as `postgres`.
 */
export function awsParameterGroup(group: string | undefined, family: string, release: string) {
  if (group === undefined || group.startsWith('default.')) return { differences: [] };
  const name = `default.${family}${release.split('.')[0]}`;
  return {
    name,
    differences: [
      `it was upgraded with the parameter group ${name}: the settings of ${group} were not tried, because it is a group of the old version`,
    ],
  };
}

/** How AWS names its log of an upgrade. */
const UPGRADE_LOG = 'pg_upgrade';
const LOG_LINES = 20;

/** Reads the events of the clone since a time, and the log of the upgrade. @param kind of its events, as `db-instance`. */
export async function awsExplain(
  cli: ServiceCli,
  kind: 'db-instance' | 'db-cluster',
  { name }: Pick<ServiceClone, 'name'>,
  source: Source,
  since: Date,
): Promise<UpgradeMessages> {
  const which = ['--source-type', kind, '--source-identifier', name];
  const call = ['rds', 'describe-events', ...which, '--start-time', since.toISOString()];
  const { Events } = await cli.json([...call, ...awsPlace(source)], events);
  // The instance of a clone has the clone's name, also in a cluster.
  const of = ['--db-instance-identifier', name];
  const find = ['rds', 'describe-db-log-files', ...of, '--filename-contains', UPGRADE_LOG];
  const { DescribeDBLogFiles } = await cli.json([...find, ...awsPlace(source)], logFiles);
  const log: string[] = [];
  for (const { LogFileName } of DescribeDBLogFiles) {
    const read = ['rds', 'download-db-log-file-portion', ...of, '--log-file-name', LogFileName];
    const { LogFileData } = await cli.json([...read, ...awsPlace(source)], logPortion);
    log.push(...(LogFileData ?? '').split('\n').filter((line) => line.trim() !== ''));
  }
  return { events: Events.flatMap(({ Message }) => Message ?? []), log: log.slice(-LOG_LINES) };
}
