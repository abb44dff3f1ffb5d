import { expect, test } from 'vitest';
import type { ServiceCli } from '../../../src/clone/services/clone-service.ts';
import { rds } from '../../../src/clone/services/rds.ts';
import { serviceOfTarget } from '../../../src/clone/services/service-of-target.ts';
import { sourceOfHost } from '../../../src/clone/services/service-source.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';

/** Recognises a server at this host that has these functions and roles. */
async function recognised(host: string, { user = 'app', has = [] as string[] } = {}) {
  const settings = parseSettings(`postgresql://${user}@${host}/shop`, readEnvironment({}, '/'));
  const query = async <T>(_: string, values: readonly unknown[] = []) =>
    (values[0] as string[]).filter((name) => has.includes(name)).map((name) => ({ name })) as T[];
  const service = await serviceOfTarget({ settings }, { query } as Parameters<typeof serviceOfTarget>[1]);
  return service && [service.id, sourceOfHost(service, { settings })];
}

test.each([
  ['shop.c9akciq32.eu-west-1.rds.amazonaws.com', 'rds', 'eu-west-1/shop'],
  ['shop.cluster-c9akciq32.eu-west-1.rds.amazonaws.com', 'aurora', 'eu-west-1/shop'],
  ['shop.cluster-ro-c9akciq32.eu-west-1.rds.amazonaws.com', 'aurora', 'eu-west-1/shop'],
  ['ep-cool-darkness-123456.us-east-2.aws.neon.tech', 'neon', null],
  ['shop.postgres.database.azure.com', 'azure', 'shop'],
  ['db.abcdefghijklmnopqrst.supabase.co', 'supabase', 'abcdefghijklmnopqrst'],
  ['abc.us-east-1.psdb.cloud', 'planetscale', null],
  ['shop-rw.production.svc.cluster.local', 'cnpg', 'production/shop'],
  ['shop-do-user-1-0.b.db.ondigitalocean.com', 'digitalocean', null],
  ['shop-my-project.b.aivencloud.com', 'aiven', null],
  ['kd9w2xp4mz.rp1pz7uyae.tsdb.cloud.timescale.com', 'tiger', 'kd9w2xp4mz'],
])('%s is a host of %s, which calls it %s', async (host, id, source) => {
  expect(await recognised(host)).toEqual([id, source]);
});

test('the pooler of Supabase names the project in the user', async () => {
  const user = 'postgres.abcdefghijklmnopqrst';
  expect(await recognised('aws-0-eu-central-1.pooler.supabase.com', { user })).toEqual([
    'supabase',
    'abcdefghijklmnopqrst',
  ]);
});

test('an instance of Aurora and a proxy of RDS are not taken for an instance of RDS', async () => {
  const has = ['aurora_version', 'rds_superuser'];
  expect(await recognised('shop-1.c9akciq32.eu-west-1.rds.amazonaws.com', { has })).toEqual(['aurora', null]);
  const proxy = 'shop.proxy-c9akciq32.eu-west-1.rds.amazonaws.com';
  expect(await recognised(proxy, { has: ['rds_superuser'] })).toEqual(['rds', null]);
  const described = {
    DBInstanceIdentifier: 'shop-1',
    DbiResourceId: 'db-SHOP',
    DBInstanceStatus: 'available',
    DBInstanceClass: 'db.r6g.large',
    DBClusterIdentifier: 'shop',
  };
  const cli: ServiceCli = {
    json: async (_, schema) => schema.parse({ DBInstances: [described] }),
    text: () => Promise.reject(new Error('nothing to do')),
  };
  await expect(rds.inspect(cli, ['eu-west-1', 'shop-1'])).rejects.toMatchObject({
    message: 'shop-1 is an instance of Aurora.',
    hint: expect.stringContaining('--clone aurora, with SAFEMIGRATE_CLONE_OF=[region/]shop.'),
  });
});

test('a host of its own, and a server without signs, belong to no service', async () => {
  expect(await recognised('db.example.com', { has: ['app'] })).toBeUndefined();
});
