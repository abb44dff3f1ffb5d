import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { allServices } from '../../../src/clone/services/service-list.ts';
import { inspectTarget } from '../../../src/database/inspect.ts';
import type { Target } from '../../../src/database/target.ts';
import { recogniseService } from '../../../src/doctor/recognise-service.ts';
import { openSession } from '../../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../../src/postgres/connection/environment.ts';
import type { Session } from '../../../src/postgres/connection/session.ts';
import { identifier } from '../../../src/postgres/sql/quote.ts';
import { safemigrate } from '../../helpers/cli.ts';
import { withClient } from '../../helpers/client.ts';
import { type TemporaryDatabase, temporaryDatabase } from '../../helpers/database.ts';
import { fakeService } from '../../helpers/fake-service.ts';

const HOST = 'shop.c9akciq32.eu-west-1.rds.amazonaws.com';
const INSTANCE = {
  DBInstanceIdentifier: 'shop',
  DbiResourceId: 'db-SHOP',
  DBInstanceStatus: 'available',
  DBInstanceClass: 'db.r6g.large',
  AllocatedStorage: 20,
};

let database: TemporaryDatabase;
let target: Target;
let session: Session;
const aws = await fakeService({
  program: 'aws',
  expired: 'The SSO session associated with this profile has expired or is otherwise invalid.',
  kindOf: () => 'list',
  answer: () => ({ DBInstances: [INSTANCE] }),
});

beforeAll(async () => {
  database = await temporaryDatabase(18);
  target = await inspectTarget(parseSettings(database.url, readEnvironment({}, '/')), 'the test');
  session = await openSession(target.settings, { purpose: 'test' });
});
afterAll(() => session.close());
beforeEach(() => {
  aws.fail({});
});

function recognise(of: string | null = null, host?: string, method = 'auto') {
  const { settings } = target;
  const hosts = host === undefined ? settings.hosts : [{ host, port: 5432 }];
  const { signal } = new AbortController();
  return recogniseService({ ...target, settings: { ...settings, hosts } }, session, { of, method, signal });
}

/** Recognises the server while it has these roles and functions, which nobody else sees. */
async function recogniseWith(statements: readonly string[]) {
  await session.query('BEGIN');
  try {
    for (const statement of statements) await session.query(statement);
    return await recognise();
  } finally {
    await session.query('ROLLBACK');
  }
}

const role = (name: string) => `CREATE ROLE ${identifier(name)}`;
const procedure = (name: string) =>
  `CREATE FUNCTION public.${identifier(name)}() RETURNS text LANGUAGE sql AS $$ SELECT '18.1' $$`;

test('a server of no service is not recognised', async () => {
  expect(await recognise()).toBeNull();
});

test('each service is recognised by the role or the function that its servers have', async () => {
  for (const { id, signs } of await allServices()) {
    const made = [
      ...(signs.role ? [role(signs.role)] : []),
      ...(signs.procedure ? [procedure(signs.procedure)] : []),
    ];
    if (made.length > 0) expect((await recogniseWith(made))?.id).toBe(id);
  }
});

test('Aurora is told from RDS, whose role it has as well', async () => {
  const found = await recogniseWith([role('rds_superuser'), procedure('aurora_version')]);
  expect(found).toMatchObject({
    id: 'aurora',
    obstacle: 'it is not known what Amazon Aurora calls the target',
    wayOut: 'set SAFEMIGRATE_CLONE_OF=[region/]cluster',
  });
});

test('by the host it is known what is cloned, and what with', async () => {
  expect(await recognise(null, HOST)).toMatchObject({
    id: 'rds',
    instance: 'db.r6g.large',
    storageBytes: 20 * 2 ** 30,
    rights: expect.stringContaining('rds:RestoreDBInstanceToPointInTime'),
    commands: ['safemigrate doctor --clone rds', 'safemigrate --clone rds -- <command>'],
    obstacle: null,
    wayOut: null,
  });
  expect((await recognise('us-east-1/other', HOST))?.commands[0]).toBe(
    'SAFEMIGRATE_CLONE_OF=us-east-1/other safemigrate doctor --clone rds',
  );
});

test('a service that is named is tried without signs of it, and bills what all databases hold if it bills data', async () => {
  const found = await recognise('acme/shop', undefined, 'planetscale');
  expect(found).toMatchObject({ id: 'planetscale', obstacle: expect.stringContaining('not installed') });
  expect(found?.storageBytes).toBeGreaterThanOrEqual(target.database.sizeBytes);
});

test('an expired login is told in the words of the service, with the command that renews it', async () => {
  aws.fail({ expired: true });
  expect(await recognise(null, HOST)).toMatchObject({
    instance: null,
    obstacle: expect.stringContaining('The SSO session associated with this profile has expired'),
    wayOut: expect.stringContaining('`aws sso login`'),
  });
});

test('a command line that is not installed is named', async () => {
  const { PATH } = process.env;
  process.env.PATH = '/nowhere';
  try {
    expect(await recognise(null, HOST)).toMatchObject({
      obstacle: 'aws, the command line of Amazon RDS, is not installed.',
      wayOut: 'Install it and log in with `aws sso login`.',
    });
  } finally {
    process.env.PATH = PATH;
  }
});

test('doctor prints the cost, the rights, what is missing and the two commands', async () => {
  await withClient(database.url, (client) => client.query(procedure('aurora_version')));
  const { stdout } = await safemigrate(['doctor'], { env: { DATABASE_URL: database.url, COLUMNS: '400' } });
  const block = stdout.split('\n\n').find((text) => text.startsWith('The target is at')) ?? '';
  expect(block.replace(/\s+/g, ' ')).toBe(
    [
      'The target is at Amazon Aurora, which can clone it',
      "a clone costs an instance of the writer's class while the run lasts, and the pages that the command changes; ready in about 8 min 0 s",
      'billed by hours of the class, and by GB-months of the changed pages, I/O requests',
      'the login of aws needs rds:DescribeDBClusters, rds:DescribeDBInstances, rds:RestoreDBClusterToPointInTime,',
      'rds:CreateDBInstance, rds:AddTagsToResource, rds:DeleteDBInstance, rds:DeleteDBCluster',
      'not yet: it is not known what Amazon Aurora calls the target',
      'set SAFEMIGRATE_CLONE_OF=[region/]cluster',
      'SAFEMIGRATE_CLONE_OF=[region/]cluster safemigrate doctor --clone aurora',
      'SAFEMIGRATE_CLONE_OF=[region/]cluster safemigrate --clone aurora -- <command>',
    ].join(' '),
  );
});
