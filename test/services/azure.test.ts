import { afterAll, expect } from 'vitest';
import type { FakeService, Thing } from '../helpers/fake-service.ts';
import { optionOf, serviceSuite } from './suite.ts';

const GROUP =
  '/subscriptions/7b2d1f00-0000-4000-8000-000000000000/resourceGroups/data/providers/Microsoft.DBforPostgreSQL/flexibleServers';
const SOURCE = {
  id: `${GROUP}/shop`,
  name: 'shop',
  resourceGroup: 'data',
  location: 'West Europe',
  state: 'Ready',
  version: '18',
  fullyQualifiedDomainName: 'shop.postgres.database.azure.com',
  sku: { name: 'Standard_D2ds_v5', tier: 'GeneralPurpose' },
  storage: { autoGrow: 'Enabled', iops: 500, storageSizeGb: 128, tier: 'P10', type: 'Premium_LRS' },
  network: { publicNetworkAccess: 'Enabled' },
  replicationRole: 'Primary',
};
const RULES = [
  { name: 'office', startIpAddress: '203.0.113.0', endIpAddress: '203.0.113.255' },
  { name: 'runners', startIpAddress: '198.51.100.7', endIpAddress: '198.51.100.7' },
];
/** The role Contributor, and the place where its rights are read. */
const RIGHTS = {
  url: `${GROUP.replace(/\/Microsoft\..*/, '')}/Microsoft.Authorization/permissions?api-version=2022-04-01`,
  value: [{ actions: ['*'], notActions: ['Microsoft.Authorization/*/Write'], dataActions: [] }],
};
const KINDS = { restore: 'create', delete: 'destroy', list: 'list' } as const;
/** Rules of clones, as server/rule. */
const opened: string[] = [];

function serverOf(thing: Thing, fake: FakeService) {
  return {
    ...SOURCE,
    id: `${GROUP}/${thing.name}`,
    name: thing.name,
    state: fake.isReady(thing) ? 'Ready' : 'Provisioning',
    fullyQualifiedDomainName: thing.host,
  };
}

await serviceSuite({
  service: 'azure',
  billed: /^hours of the size \(Standard_D2ds_v5\), and by GB-months of the storage \(128 GB\)$/,
  of: 'shop',
  program: 'az',
  fixedPort: true,
  expired:
    'ERROR: AADSTS700082: The refresh token has expired due to inactivity. To re-authenticate, please run: az login',
  kindOf: ([, , verb = '', deed]) =>
    deed === 'create' ? 'change' : (KINDS[verb as keyof typeof KINDS] ?? 'other'),
  async answer(args, fake) {
    const [noun, , verb, deed] = args;
    if (noun === 'rest' && optionOf(args, '--url') === RIGHTS.url) return { value: RIGHTS.value };
    if (optionOf(args, '--resource-group') !== 'data' && verb !== 'list')
      throw new Error('the resource group is another one');
    const name = optionOf(args, '--name');
    switch (verb) {
      case 'restore':
        if (optionOf(args, '--source-server') !== SOURCE.id) throw new Error('another source');
        await fake.create(name);
        return '';
      case 'firewall-rule':
        if (deed === 'list') return RULES;
        opened.push(`${optionOf(args, '--server-name')}/${name}`);
        return {};
      case 'delete':
        await fake.destroy((thing) => thing.name === name);
        return '';
      default:
        return [SOURCE, ...fake.things.map((thing) => serverOf(thing, fake))];
    }
  },
});

// Without them nobody could reach the clone.
afterAll(() => {
  const [clone] = opened.at(-1)?.split('/') ?? [];
  expect(opened.slice(-2)).toEqual(RULES.map(({ name }) => `${clone}/${name}`));
});
