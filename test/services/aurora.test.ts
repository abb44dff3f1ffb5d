import type { CallKind, FakeService, Thing } from '../helpers/fake-service.ts';
import { optionOf, serviceSuite } from './suite.ts';

const CLUSTER = {
  DBClusterIdentifier: 'shop',
  DbClusterResourceId: 'cluster-SHOP',
  Status: 'available',
  Engine: 'aurora-postgresql',
  Endpoint: 'shop.cluster-abc.eu-west-1.rds.amazonaws.com',
  Port: 5432,
  DBSubnetGroup: 'private',
  VpcSecurityGroups: [{ VpcSecurityGroupId: 'sg-1', Status: 'active' }],
  DBClusterParameterGroup: 'aurora18',
  DBClusterMembers: [{ DBInstanceIdentifier: 'shop-1', IsClusterWriter: true }],
  TagList: [],
};
const WRITER = {
  DBInstanceIdentifier: 'shop-1',
  DbiResourceId: 'db-SHOP',
  DBInstanceStatus: 'available',
  DBInstanceClass: 'db.r6g.large',
  DBClusterIdentifier: 'shop',
};

function clusterOf(thing: Thing) {
  return {
    ...CLUSTER,
    DBClusterIdentifier: thing.name,
    DbClusterResourceId: `cluster-${thing.id}`,
    Endpoint: thing.host,
    Port: thing.port,
    TagList: Object.entries(thing.labels).map(([Key, Value]) => ({ Key, Value })),
  };
}

function instanceOf(thing: Thing, fake: FakeService) {
  return {
    ...WRITER,
    DBInstanceIdentifier: thing.name,
    DbiResourceId: `db-${thing.id}`,
    DBClusterIdentifier: thing.name,
    DBInstanceStatus: fake.isReady(thing) ? 'available' : 'creating',
  };
}

const KINDS: Readonly<Record<string, CallKind>> = {
  'restore-db-cluster-to-point-in-time': 'create',
  'create-db-instance': 'other',
  'delete-db-cluster': 'destroy',
  'delete-db-instance': 'destroy',
};
/** Clusters that have an instance by now. */
const members = new Set<string>();

await serviceSuite({
  service: 'aurora',
  thorough: true,
  of: 'eu-west-1/shop',
  program: 'aws',
  expired: 'The SSO session associated with this profile has expired or is otherwise invalid.',
  kindOf: ([, verb = '']) => KINDS[verb] ?? 'list',
  async answer(args, fake) {
    const [, verb] = args;
    const name = optionOf(args, '--db-cluster-identifier');
    const instance = optionOf(args, '--db-instance-identifier');
    switch (verb) {
      case 'restore-db-cluster-to-point-in-time':
        return { DBCluster: clusterOf(await fake.create(name, { safemigrate: name })) };
      case 'create-db-instance':
        members.add(name);
        return { DBInstance: {} };
      case 'delete-db-instance':
        if (!members.delete(instance)) throw new Error('DBInstanceNotFound');
        return { DBInstance: {} };
      case 'delete-db-cluster':
        if (members.has(name)) throw new Error('InvalidDBClusterStateFault: it still contains DB instances');
        await fake.destroy((thing) => thing.name === name);
        return { DBCluster: {} };
      case 'describe-db-clusters':
        return { DBClusters: name === '' ? [CLUSTER, ...fake.things.map(clusterOf)] : [CLUSTER] };
      default: {
        const own = fake.things.filter((thing) => members.has(thing.name));
        return { DBInstances: [WRITER, ...own.map((thing) => instanceOf(thing, fake))] };
      }
    }
  },
});
