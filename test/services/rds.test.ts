import {
  answerOfUpgrade,
  OLD_RELEASE,
  releaseIn,
  upgradeByRequest,
  whileUpgrading,
} from '../helpers/aws-upgrades.ts';
import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { changedClones, pagesOf, startMoto, textsOf } from '../helpers/moto.ts';
import { type ServiceCase, serviceSuite } from './suite.ts';
import { upgradeSuite } from './upgrade-suite.ts';

const moto = await startMoto();
const INSTANCE = { element: 'DBInstance', identifier: 'DBInstanceIdentifier' };
const CREATED = {
  Engine: 'postgres',
  EngineVersion: OLD_RELEASE,
  DBInstanceClass: 'db.r6g.large',
  AllocatedStorage: '20',
  MasterUsername: 'postgres',
  MasterUserPassword: 'of-the-source',
  'VpcSecurityGroupIds.VpcSecurityGroupId.1': 'sg-1',
};
const KINDS = {
  RestoreDBInstanceToPointInTime: 'create',
  ModifyDBInstance: 'change',
  DeleteDBInstance: 'destroy',
} as const;

/** Moto's instances are ready at once, at hosts that do not exist. */
function mapped(xml: string, fake: FakeService): string {
  return changedClones(xml, fake, INSTANCE, (part, thing: Thing) => {
    const isReady = fake.isReady(thing);
    const endpoint = `<Endpoint><Address>${thing.host}</Address><Port>${thing.port}</Port></Endpoint>`;
    return whileUpgrading(part, thing, fake, 'DBInstanceStatus')
      .replace(/<Endpoint>.*<\/Endpoint>/s, isReady ? endpoint : '')
      .replace('<DBInstanceStatus>available<', `<DBInstanceStatus>${isReady ? 'available' : 'creating'}<`);
  });
}

async function instances(): Promise<string[]> {
  const all = textsOf(await pagesOf(moto, 'DescribeDBInstances'), 'DBInstanceIdentifier');
  return all.filter((name) => name !== 'shop');
}

const rds: ServiceCase = {
  service: 'rds',
  billed: /^hours of the class \(db\.r6g\.large\), and by GB-months of the storage \(20 GB\)$/,
  of: 'eu-west-1/shop',
  program: 'aws',
  real: moto.aws,
  expired: 'The security token included in the request is expired',
  doubt: /The clone is Amazon RDS's: it reads pages from a storage at their first use/,
  kindOf: ([, , , body = '']) => {
    const action = new URLSearchParams(body).get('Action') ?? '';
    return KINDS[action as keyof typeof KINDS] ?? 'list';
  },
  async answer([, , , body = ''], fake) {
    const asked = new URLSearchParams(body);
    const done = answerOfUpgrade(asked, CREATED.Engine) ?? (await moto.send(asked));
    switch (asked.get('Action')) {
      case 'RestoreDBInstanceToPointInTime': {
        // Without them the account's defaults would be taken.
        if (asked.get('VpcSecurityGroupIds.VpcSecurityGroupId.1') !== 'sg-1')
          throw new Error('the security group is lost');
        await fake.create(asked.get('TargetDBInstanceIdentifier') ?? '');
        return mapped(done, fake);
      }
      case 'ModifyDBInstance': {
        const name = asked.get('DBInstanceIdentifier') ?? '';
        await upgradeByRequest(asked, name, fake, 'DBParameterGroupName');
        return mapped(done, fake);
      }
      case 'DeleteDBInstance':
        await fake.destroy(({ name }) => name === asked.get('DBInstanceIdentifier'));
        return done;
      default:
        return mapped(done, fake);
    }
  },
  store: {
    async fill(things) {
      const there = await instances();
      if (there.length === 0)
        await moto.request('CreateDBInstance', { ...CREATED, DBInstanceIdentifier: 'shop' });
      const wanted = things.map(({ name }) => name);
      for (const name of there.filter((each) => !wanted.includes(each)))
        await moto.request('DeleteDBInstance', { DBInstanceIdentifier: name, SkipFinalSnapshot: 'true' });
      for (const name of wanted.filter((each) => !there.includes(each)))
        await moto.request('CreateDBInstance', { ...CREATED, DBInstanceIdentifier: name });
    },
    names: instances,
  },
};
const fake = await serviceSuite(rds);

upgradeSuite({ ...rds, thorough: true }, fake, async (DBInstanceIdentifier) =>
  releaseIn(await moto.request('DescribeDBInstances', { DBInstanceIdentifier })),
);
