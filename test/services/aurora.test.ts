import { expect, test } from 'vitest';
import {
  answerOfUpgrade,
  OLD_RELEASE,
  releaseIn,
  upgradeByRequest,
  whileUpgrading,
} from '../helpers/aws-upgrades.ts';
import type { FakeService } from '../helpers/fake-service.ts';
import { changedClones, pagesOf, startMoto, textsOf } from '../helpers/moto.ts';
import { documentedLines, type ServiceCase, serviceSuite } from './suite.ts';
import { upgradeSuite } from './upgrade-suite.ts';

const moto = await startMoto();
const CLUSTER = { element: 'DBCluster', identifier: 'DBClusterIdentifier' };
/** A clone's instance has the name of its cluster. */
const INSTANCE = { element: 'DBInstance', identifier: 'DBClusterIdentifier' };
const CREATED = {
  Engine: 'aurora-postgresql',
  EngineVersion: OLD_RELEASE,
  MasterUsername: 'postgres',
  MasterUserPassword: 'of-the-source',
  'VpcSecurityGroupIds.VpcSecurityGroupId.1': 'sg-1',
};
const WRITER = { DBInstanceIdentifier: 'shop-1', DBInstanceClass: 'db.r6g.large', Engine: CREATED.Engine };
const KINDS = {
  RestoreDBClusterToPointInTime: 'create',
  CreateDBInstance: 'change',
  ModifyDBCluster: 'change',
  DeleteDBCluster: 'destroy',
  DeleteDBInstance: 'destroy',
} as const;

/** Moto's clusters and instances are ready at once, at hosts that do not exist. */
function mapped(xml: string, fake: FakeService): string {
  const atHost = changedClones(xml, fake, CLUSTER, (part, thing) =>
    whileUpgrading(part, thing, fake, 'Status')
      .replace(/<Endpoint>.*?<\/Endpoint>/, `<Endpoint>${thing.host}</Endpoint>`)
      .replace(/<Port>\d+<\/Port>/, `<Port>${thing.port}</Port>`),
  );
  return changedClones(atHost, fake, INSTANCE, (part, thing) =>
    fake.isReady(thing) ? part : part.replace('<DBInstanceStatus>available<', '<DBInstanceStatus>creating<'),
  );
}

async function clusters(): Promise<string[]> {
  const all = await pagesOf(moto, 'DescribeDBClusters');
  return textsOf(all, 'DBClusterIdentifier').filter((name) => name !== 'shop');
}

const aurora: ServiceCase = {
  service: 'aurora',
  billed: /^hours of the class \(db\.r6g\.large\), and by GB-months of the changed pages, I\/O requests$/,
  of: 'eu-west-1/shop',
  program: 'aws',
  real: moto.aws,
  expired: 'The security token included in the request is expired',
  kindOf: ([, , , body = '']) => {
    const action = new URLSearchParams(body).get('Action') ?? '';
    return KINDS[action as keyof typeof KINDS] ?? 'list';
  },
  async answer([, , , body = ''], fake) {
    const asked = new URLSearchParams(body);
    const name = asked.get('DBClusterIdentifier') ?? '';
    const done = answerOfUpgrade(asked, CREATED.Engine) ?? (await moto.send(asked));
    if (asked.get('Action') === 'RestoreDBClusterToPointInTime') {
      if (asked.get('RestoreType') !== 'copy-on-write') throw new Error('a full copy');
      await fake.create(name);
    }
    if (asked.get('Action') === 'ModifyDBCluster')
      await upgradeByRequest(asked, name, fake, 'DBClusterParameterGroupName');
    if (asked.get('Action') === 'DeleteDBCluster') await fake.destroy((thing) => thing.name === name);
    return mapped(done, fake);
  },
  store: {
    async fill(things) {
      const there = await clusters();
      if (there.length === 0) {
        await moto.request('CreateDBCluster', { ...CREATED, DBClusterIdentifier: 'shop' });
        await moto.request('CreateDBInstance', { ...WRITER, DBClusterIdentifier: 'shop' });
      }
      const wanted = things.map(({ name }) => name);
      for (const name of there.filter((each) => !wanted.includes(each)))
        await moto.request('DeleteDBCluster', { DBClusterIdentifier: name, SkipFinalSnapshot: 'true' });
      for (const name of wanted.filter((each) => !there.includes(each)))
        await moto.request('CreateDBCluster', { ...CREATED, DBClusterIdentifier: name });
    },
    names: clusters,
  },
};
const fake = await serviceSuite(aurora);

test('the page begins with the two commands of its section', () => {
  expect(documentedLines()).toEqual(documentedLines('Amazon Aurora'));
});

upgradeSuite(aurora, fake, async (DBClusterIdentifier) =>
  releaseIn(await moto.request('DescribeDBClusters', { DBClusterIdentifier })),
);
