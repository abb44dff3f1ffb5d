import { expect, test } from 'vitest';
import { missingAzureRights } from '../../../src/clone/services/azure-rights.ts';
import type { ServiceCli } from '../../../src/clone/services/clone-service.ts';
import { SafemigrateError } from '../../../src/errors.ts';

const SERVERS = 'Microsoft.DBforPostgreSQL/flexibleServers';

/** The rights that a login with these roles lacks. */
function lacking(answer: object | Error, hasRules = true): Promise<string[]> {
  const cli: ServiceCli = {
    json: async (_, schema) => {
      if (answer instanceof Error) throw answer;
      return schema.parse(answer);
    },
    text: () => Promise.reject(new Error('nothing to do')),
  };
  return missingAzureRights(cli, `/subscriptions/s/resourceGroups/data/providers/${SERVERS}/shop`, {
    hasRules,
  });
}

test.each([
  ['Contributor', [{ actions: ['*'], notActions: ['Microsoft.Authorization/*/Write'] }], []],
  [
    'Reader',
    [{ actions: ['*/read'], notActions: [] }],
    [`${SERVERS}/write`, `${SERVERS}/delete`, `${SERVERS}/firewallRules/write`],
  ],
  [
    'one that may not delete',
    [{ actions: ['Microsoft.DBforPostgreSQL/*'], notActions: ['microsoft.dbforpostgresql/*/delete'] }],
    [`${SERVERS}/delete`],
  ],
  [
    'two of which one gives what the other leaves out',
    [
      { actions: [`${SERVERS}/*`], notActions: [`${SERVERS}/delete`] },
      { actions: [`${SERVERS}/delete`], notActions: null },
    ],
    [],
  ],
])('the role %s', async (_, value, missing) => {
  expect(await lacking({ value })).toEqual(missing);
});

test('a server without a public address needs no rights to firewall rules', async () => {
  const value = [{ actions: [`${SERVERS}/read`, `${SERVERS}/write`, `${SERVERS}/delete`], notActions: [] }];
  expect(await lacking({ value }, false)).toEqual([]);
  expect(await lacking({ value })).toEqual([
    `${SERVERS}/firewallRules/read`,
    `${SERVERS}/firewallRules/write`,
  ]);
});

test('nothing is called missing if not all rights are known', async () => {
  expect(await lacking({ value: [], nextLink: 'https://more' })).toEqual([]);
  expect(await lacking(new SafemigrateError('CLONE', '`az rest` ended with 1.'))).toEqual([]);
});
