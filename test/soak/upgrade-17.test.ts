import { randomBytes } from 'node:crypto';
import { cp, symlink } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest';
import type { UpgradeReport } from '../../src/model/upgrade-model.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { programsOf } from '../helpers/own-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { unpackedPrograms } from '../helpers/unpacked-programs.ts';
import { upgradePrograms } from '../helpers/upgrade-programs.ts';
import {
  cannotUpgrade,
  rehearseUpgradeOf,
  type ServerToUpgrade,
  serverToUpgrade,
} from '../helpers/upgrading.ts';

const WHOLE = await upgradePrograms(17);
const skipped = cannotUpgrade || skipReason(WHOLE.obstacle);

const objectsIn = (report: UpgradeReport | null) =>
  Object.fromEntries(report?.obstacles.map((each) => [each.code, each.objects]) ?? []);
const modesOf = (report: UpgradeReport | null) =>
  report?.modes.map(({ mode, outcome }) => `${mode} ${outcome}`);
const send = (url: string, ...statements: string[]) =>
  withClient(url, async (client) => {
    for (const statement of statements) await client.query(statement);
  });
const subscription = (name: string) =>
  `CREATE SUBSCRIPTION ${name} CONNECTION 'host=nowhere.invalid' PUBLICATION pub WITH (connect = false)`;

describe.skipIf(skipped)('an upgrade of PostgreSQL 15 to 17', () => {
  let old: ServerToUpgrade;
  beforeAll(async () => {
    old = await serverToUpgrade({ settings: { wal_level: 'logical' } });
  }, 60_000);
  afterAll(() => old?.stop());

  test('passes in the modes of 17, and names slots, subscriptions and statistics that are lost', async () => {
    await send(
      old.url,
      'CREATE TABLE t AS SELECT 1 AS n, 2 AS m',
      'CREATE STATISTICS of_both ON n, m FROM t',
      `SELECT pg_create_logical_replication_slot('feed', 'pgoutput')`,
      subscription('sub'),
    );
    const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 17, ['--new-bin', WHOLE.programs]);
    expect(exitCode, stderr).toBe(0);
    expect(modesOf(report)).toEqual(['copy passed', 'clone passed', 'link passed', 'swap skipped']);
    const objects = objectsIn(report);
    expect(objects).toMatchObject({
      SLOT_LOST: ['feed (app)'],
      SUBSCRIPTION_STATE: ['app: sub'],
      STATISTICS_LOST: [expect.stringMatching(/^all databases, for \d/)],
    });
    for (const code of ['SLOT_MUST_BE_READ', 'EXTENDED_STATISTICS_LOST', 'CHECKSUMS_OFF', 'MD5_LOGIN'])
      expect(objects).not.toHaveProperty(code);
    expect(report).toMatchObject({ to: { major: 17 }, carriesStatistics: false });
  }, 180_000);
});

describe.skipIf(skipped)('an upgrade of PostgreSQL 17 to 19', () => {
  let old: ServerToUpgrade;
  beforeAll(async () => {
    old = await serverToUpgrade({ programs: await upgradable17(), settings: { wal_level: 'logical' } });
  }, 60_000);
  afterAll(() => old?.stop());

  test('is refused for a subscription without an origin, and then names slots to read and another Unicode', async () => {
    const words = changedUrl(old.url, { database: 'words' });
    await send(
      old.url,
      `CREATE DATABASE words TEMPLATE template0 LOCALE_PROVIDER builtin BUILTIN_LOCALE 'C.UTF-8' LOCALE 'C.UTF-8'`,
      `SELECT pg_create_logical_replication_slot('feed', 'pgoutput')`,
      subscription('kept'),
      subscription('broken'),
      `SELECT pg_replication_origin_drop('pg_' || oid) FROM pg_subscription WHERE subname = 'broken'`,
    );
    await send(words, 'CREATE TABLE words (word text)', 'CREATE INDEX small ON words (lower(word))');
    const args = ['--new-bin', await programsOf(19), '--modes', 'link,swap'];
    const refused = await rehearseUpgradeOf(old.url, 19, args);
    expect(refused.exitCode, refused.stderr).toBe(1);
    expect(objectsIn(refused.report)).toMatchObject({
      SUBSCRIPTION_UNREADY: [expect.stringContaining('"broken"')],
      SLOT_MUST_BE_READ: ['feed (app)'],
    });
    expect(refused.report?.modes).toEqual([]);

    await send(old.url, 'ALTER SUBSCRIPTION broken SET (slot_name = NONE)', 'DROP SUBSCRIPTION broken');
    const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 19, args);
    expect(exitCode, stderr).toBe(0);
    expect(modesOf(report)).toEqual(['link passed', 'swap passed']);
    const objects = objectsIn(report);
    expect(objects).toMatchObject({
      SLOT_MUST_BE_READ: ['feed (app)'],
      UNICODE_CHANGED: expect.arrayContaining([expect.stringContaining('small')]),
    });
    for (const code of ['SLOT_LOST', 'SUBSCRIPTION_STATE', 'SUBSCRIPTION_UNREADY'])
      expect(objects).not.toHaveProperty(code);
    expect(report?.application?.schemaChanges).toEqual([]);
  }, 180_000);
});

/** The package's server, since Debian's gives columns an option that 19 refuses; with what the package lacks and pg_upgrade asks. */
async function upgradable17(): Promise<string> {
  const folder = path.join(inject('store'), `postgresql-17-upgradable-${randomBytes(4).toString('hex')}`);
  await cp(path.dirname(await programsOf(17)), folder, { recursive: true, verbatimSymlinks: true });
  const whole = await unpackedPrograms(17, path.join(folder, 'lib', 'whole'));
  if ('missing' in whole) throw new Error(whole.missing);
  for (const program of ['pg_controldata', 'pg_resetwal'])
    await symlink(path.join(whole.programs, program), path.join(folder, 'bin', program));
  return path.join(folder, 'bin');
}
