import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { optionOf, serviceSuite } from './suite.ts';

const SOURCE = {
  DBInstanceIdentifier: 'shop',
  DbiResourceId: 'db-SHOP',
  DBInstanceStatus: 'available',
  DBInstanceClass: 'db.r6g.large',
  Endpoint: { Address: 'shop.abc.eu-west-1.rds.amazonaws.com', Port: 5432 },
  DBSubnetGroup: { DBSubnetGroupName: 'private' },
  VpcSecurityGroups: [{ VpcSecurityGroupId: 'sg-1', Status: 'active' }],
  DBParameterGroups: [{ DBParameterGroupName: 'pg18', ParameterApplyStatus: 'in-sync' }],
  PubliclyAccessible: false,
  LatestRestorableTime: new Date().toISOString(),
  TagList: [],
};

function instanceOf(thing: Thing, fake: FakeService) {
  const ready = fake.isReady(thing);
  return {
    ...SOURCE,
    DBInstanceIdentifier: thing.name,
    DbiResourceId: `db-${thing.id}`,
    DBInstanceStatus: ready ? 'available' : 'creating',
    TagList: Object.entries(thing.labels).map(([Key, Value]) => ({ Key, Value })),
    Endpoint: ready ? { Address: thing.host, Port: thing.port } : undefined,
  };
}

await serviceSuite({
  service: 'rds',
  of: 'eu-west-1/shop',
  program: 'aws',
  expired: 'The SSO session associated with this profile has expired or is otherwise invalid.',
  doubt: /The clone is Amazon RDS's: it reads pages from a storage at their first use/,
  kindOf: ([, verb = '']) =>
    verb.startsWith('restore-') ? 'create' : verb.startsWith('delete-') ? 'destroy' : 'list',
  async answer(args, fake) {
    const [, verb] = args;
    if (verb === 'restore-db-instance-to-point-in-time') {
      const name = optionOf(args, '--target-db-instance-identifier');
      // Without them the account's defaults would be taken.
      if (optionOf(args, '--vpc-security-group-ids') !== 'sg-1')
        throw new Error('the security group is lost');
      const thing = await fake.create(name, { safemigrate: name });
      return { DBInstance: instanceOf(thing, fake) };
    }
    if (verb === 'delete-db-instance') {
      await fake.destroy(({ name }) => name === optionOf(args, '--db-instance-identifier'));
      return { DBInstance: {} };
    }
    if (args.includes('--db-instance-identifier')) return { DBInstances: [SOURCE] };
    return { DBInstances: [SOURCE, ...fake.things.map((thing) => instanceOf(thing, fake))] };
  },
});
