import { appendFile } from 'node:fs/promises';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withClient } from '../helpers/client.ts';
import { programsOf } from '../helpers/own-server.ts';
import { makeAccounts } from '../helpers/transfers.ts';
import {
  cannotUpgrade,
  rehearseUpgradeOf,
  type ServerToUpgrade,
  serverToUpgrade,
} from '../helpers/upgrading.ts';

const NEW = await programsOf(19);

describe.skipIf(cannotUpgrade)('an upgrade of PostgreSQL 15 to 19', () => {
  let old: ServerToUpgrade;

  beforeAll(async () => {
    old = await serverToUpgrade();
    await makeAccounts(old.url);
    await query('CREATE STATISTICS of_both ON id, balance FROM account', 'ANALYZE');
  }, 60_000);
  afterAll(() => old?.stop());

  const query = (...statements: string[]) =>
    withClient(old.url, async (client) => {
      for (const statement of statements) await client.query(statement);
    });
  const rehearse = (...args: string[]) => rehearseUpgradeOf(old.url, 19, ['--new-bin', NEW, ...args]);

  test('is refused for what 19 refuses, and passes in all modes without that', async () => {
    await query(
      'CREATE ROLE "two\nlines"',
      'CREATE EXTENSION btree_gist',
      'CREATE TABLE hosts (address inet)',
      'CREATE INDEX by_address ON hosts USING gist (address gist_inet_ops)',
      `CREATE DATABASE letters TEMPLATE template0 ENCODING 'MULE_INTERNAL' LOCALE 'C'`,
      'ALTER DATABASE app SET escape_string_warning = off',
      'ALTER ROLE ALL SET standard_conforming_strings = off',
      'ALTER DATABASE app SET standard_conforming_strings = on',
      `CREATE FUNCTION one() RETURNS int LANGUAGE sql SET standard_conforming_strings = off AS 'SELECT 1'`,
      'ALTER SYSTEM SET standard_conforming_strings = off',
      'SELECT pg_reload_conf()',
    );
    await appendFile(
      path.join(old.server.data, 'pg_hba.conf'),
      'host app all 10.0.0.0/8 radius radiusservers=127.0.0.1 radiussecrets=none\n',
    );
    const { report, exitCode, stderr } = await rehearse();
    expect(exitCode, stderr).toBe(1);
    const objects = Object.fromEntries(report?.obstacles.map((each) => [each.code, each.objects]) ?? []);
    expect(objects).toMatchObject({
      NAME_WITH_LINE_BREAK: [expect.stringMatching(/^role "two/)],
      GIST_OF_ADDRESSES: ['public.by_address'],
      RADIUS_LOGIN: [expect.stringContaining('radius')],
      ENCODING_GONE: ['letters'],
      SETTING_REFUSED: [
        'escape_string_warning=off (ALTER DATABASE app)',
        'standard_conforming_strings=off (ALTER ROLE ALL)',
        'standard_conforming_strings=off (ALTER ROUTINE public.one())',
      ],
    });
    expect(objects).not.toHaveProperty('EXTENDED_STATISTICS_LOST');

    const settings = report?.obstacles.find(({ code }) => code === 'SETTING_REFUSED')?.sql ?? [];
    await query('DROP ROLE "two\nlines"', 'DROP INDEX by_address', 'DROP DATABASE letters', ...settings);
    const again = await rehearse();
    expect(again.exitCode, again.stderr).toBe(0);
    expect(again.report?.modes.map(({ mode, outcome }) => `${mode} ${outcome}`)).toEqual([
      'copy passed',
      'clone passed',
      'link passed',
      'swap passed',
    ]);
    expect(again.report).toMatchObject({ to: { major: 19 }, carriesStatistics: true });
    expect(again.report?.obstacles).toContainEqual(
      expect.objectContaining({ code: 'SETTING_GONE', objects: ['standard_conforming_strings = off'] }),
    );
  }, 180_000);
});
