import * as z from 'zod/mini';
import { SafemigrateError } from '../../errors.ts';
import type { ServiceClone, Source } from './clone-service.ts';

/** The parts of AWS that RDS and Aurora share. */
const tags = z.optional(z.array(z.object({ Key: z.string(), Value: z.optional(z.string()) })));

export const awsInstance = z.object({
  DBInstanceIdentifier: z.string(),
  DbiResourceId: z.string(),
  DBInstanceStatus: z.string(),
  DBInstanceClass: z.string(),
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
