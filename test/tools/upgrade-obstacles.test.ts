import { execFile } from 'node:child_process';
import { appendFile, chown, mkdir, readFile, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { UpgradeReport } from '../../src/model/upgrade-model.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { debianPrograms, SERVER_UID, standbyOf } from '../helpers/placed-server.ts';
import { makeAccounts } from '../helpers/transfers.ts';
import {
  cannotUpgrade,
  NEW,
  rehearseUpgradeOf,
  type ServerToUpgrade,
  serverToUpgrade,
} from '../helpers/upgrading.ts';

const run = promisify(execFile);
const CLIENTS = await debianPrograms(15);
const newBin = ['--new-bin', NEW.programs];
const fast = [...newBin, '--modes', 'link'];

const send = (url: string, ...statements: string[]) =>
  withClient(url, async (client) => {
    for (const statement of statements) await client.query(statement);
  });

const byCode = (report: UpgradeReport | null) => new Map(report?.obstacles.map((each) => [each.code, each]));

describe.skipIf(cannotUpgrade)('an upgrade of PostgreSQL 15 to 18 with obstacles', () => {
  let old: ServerToUpgrade;

  beforeAll(async () => {
    old = await serverToUpgrade({ settings: { max_prepared_transactions: '5', wal_level: 'logical' } });
    await makeAccounts(old.url);
  }, 60_000);
  afterAll(() => old?.stop());

  const query = (...statements: string[]) => send(old.url, ...statements);

  test('names each with a remedy, with which the next rehearsal passes', async () => {
    await plantOutside(old);
    await query(
      PLANTED,
      `BEGIN; UPDATE account SET balance = 0 WHERE id = 1; PREPARE TRANSACTION 'left over'`,
    );

    const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, newBin);
    expect(exitCode, stderr).toBe(1);
    expect(report?.modes).toEqual([]);
    const found = byCode(report);
    const objects = Object.fromEntries([...found].map(([code, each]) => [code, each.objects]));
    expect(objects).toMatchObject({
      DATABASE_CLOSED: ['closed'],
      DATABASE_INVALID: ['half'],
      TEMPLATE0_OPEN: ['template0'],
      PREPARED_TRANSACTION: ['left over in app'],
      EXTENSION_MISSING: [expect.stringMatching(/^app: adminpack /)],
      LIBRARY_MISSING: ['app: public.old_times() needs $libdir/old_snapshot'],
      REG_COLUMN: ['app: public.names.fn regproc'],
      ACLITEM_COLUMN: ['app: public.grants.acl public.grantees'],
      SYSTEM_TYPE_COLUMN: ['app: public.odd.c pg_description'],
      NOT_NULL_OF_PARENT: ['app: public.child.id'],
      SLOT_LOST: ['feed (postgres)'],
      PHYSICAL_SLOT_LOST: ['follower'],
      SUBSCRIPTION_STATE: ['app: sub'],
      SETTING_GONE: ['vacuum_defer_cleanup_age'],
      TABLESPACE_IN_DATA: [expect.stringMatching(/^inside in /)],
      MD5_PASSWORD: ['old_login'],
      MD5_LOGIN: [expect.stringMatching(/host legacy all 10.0.0.0\/255.0.0.0 md5$/)],
    });
    expect(found.get('CHECKSUMS_OFF')).toMatchObject({ severity: 'notice' });
    const grave = report?.obstacles.filter(({ severity }) => severity === 'error') ?? [];
    expect(report?.verdict.reasons).toEqual(grave.map(({ code, message }) => `${code}: ${message}`));
    for (const { code, sql } of grave)
      await query(...(code === 'EXTENSION_MISSING' ? ['DROP EXTENSION adminpack'] : sql));
    await applyRemediesOutside(old);
    const last = await rehearseUpgradeOf(old.url, 18, fast);
    expect(last.exitCode, last.stderr).toBe(0);
    expect([...byCode(last.report).keys()].sort()).toEqual([
      'CHECKSUMS_OFF',
      'DEFAULT_CHANGED',
      'SUBSCRIPTION_STATE',
    ]);
  }, 180_000);
});

/** What concerns the cluster more than a database. */
async function plantOutside({ server }: ServerToUpgrade): Promise<void> {
  await appendFile(path.join(server.data, 'pg_hba.conf'), 'host legacy all 10.0.0.0/8 md5\n');
  const inside = path.join(server.data, 'inside');
  await mkdir(inside);
  if (SERVER_UID !== undefined) await chown(inside, SERVER_UID, SERVER_UID);
  await send(
    server.url,
    'CREATE DATABASE closed ALLOW_CONNECTIONS false',
    'CREATE DATABASE half',
    `UPDATE pg_database SET datconnlimit = -2 WHERE datname = 'half'`,
    'ALTER DATABASE template0 ALLOW_CONNECTIONS true',
    `CREATE ROLE old_login LOGIN PASSWORD 'md5b5f5ba1a423792b526f799ae4eb3d59e'`,
    `SELECT pg_create_logical_replication_slot('feed', 'pgoutput')`,
    `SELECT pg_create_physical_replication_slot('follower')`,
    'ALTER SYSTEM SET vacuum_defer_cleanup_age = 10',
    'SELECT pg_reload_conf()',
    `CREATE TABLESPACE inside LOCATION '${inside}'`,
  );
}

/** As the remedies of warnings and notices say. */
async function applyRemediesOutside({ server }: ServerToUpgrade): Promise<void> {
  const file = path.join(server.data, 'pg_hba.conf');
  await writeFile(
    file,
    (await readFile(file, 'utf8')).replace(/10\.0\.0\.0\/8 md5/, '10.0.0.0/8 scram-sha-256'),
  );
  await send(
    server.url,
    `ALTER ROLE old_login PASSWORD 'another'`,
    `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots`,
    'ALTER SYSTEM RESET vacuum_defer_cleanup_age',
    'SELECT pg_reload_conf()',
    'DROP TABLESPACE inside',
  );
}

const PLANTED = `
CREATE TABLE names (id int, fn regproc); CREATE DOMAIN grantees AS aclitem[]; CREATE TABLE grants (id int, acl grantees);
CREATE EXTENSION adminpack; CREATE TABLE odd (c pg_description);
CREATE FUNCTION old_times() RETURNS SETOF record AS '$libdir/old_snapshot', 'pg_old_snapshot_time_mapping' LANGUAGE C;
CREATE TABLE parent (id int NOT NULL); CREATE TABLE child () INHERITS (parent); ALTER TABLE child ALTER COLUMN id DROP NOT NULL;
CREATE SUBSCRIPTION sub CONNECTION 'host=nowhere.invalid' PUBLICATION pub WITH (connect = false);`;

describe.skipIf(cannotUpgrade)('an upgrade to an installation without ICU', () => {
  test('names databases and collations of ICU, and passes once they are of libc', async () => {
    const icu = await serverToUpgrade();
    try {
      const shop = changedUrl(icu.url, { database: 'shop' });
      await send(
        icu.url,
        `CREATE DATABASE shop TEMPLATE template0 LOCALE_PROVIDER icu ICU_LOCALE 'de-AT' LOCALE 'C.UTF-8'`,
        `CREATE COLLATION german (PROVIDER = icu, LOCALE = 'de')`,
        'CREATE TABLE words (word text COLLATE german); CREATE INDEX ON words (word)',
        `UPDATE pg_collation SET collversion = '1.0' WHERE collname = 'german'`,
      );
      await send(shop, 'CREATE TABLE goods AS SELECT 1 AS id, $$shoe$$ AS name');
      const { report, exitCode, stderr } = await rehearseUpgradeOf(icu.url, 18, fast);
      expect(exitCode, stderr).toBe(1);
      const found = byCode(report);
      expect(found.get('ICU_MISSING')?.objects).toEqual(['app: collation public.german', 'shop']);
      expect(found.get('COLLATION_CHANGED')).toMatchObject({
        objects: [expect.stringMatching(/^app: collation public.german, 1.0 → .*, indexes to rebuild: 1$/)],
        sql: ['ALTER COLLATION public.german REFRESH VERSION;'],
      });
      for (const statement of found.get('ICU_MISSING')?.sql ?? []) await send(icu.url, statement);
      await run('sh', ['-c', 'pg_dump "$1" | psql -X -q -v ON_ERROR_STOP=1 "$1_libc"', 'sh', shop]);
      await send(
        icu.url,
        'DROP DATABASE shop',
        'ALTER DATABASE shop_libc RENAME TO shop',
        'ALTER TABLE words ALTER word TYPE text COLLATE "C"',
        'DROP COLLATION german',
      );
      const again = await rehearseUpgradeOf(shop, 18, fast);
      expect(again.exitCode, again.stderr).toBe(0);
      expect([...byCode(again.report).keys()]).not.toContain('ICU_MISSING');
    } finally {
      await icu.stop();
    }
  }, 120_000);

  test('fails with what initdb said and with the other obstacles if the whole cluster is of ICU', async () => {
    const icu = await serverToUpgrade({
      make: (_, initdb) => initdb('--locale-provider=icu', '--icu-locale=de-AT'),
    });
    try {
      await send(icu.url, 'CREATE TABLE names (fn regproc)');
      const { report, exitCode, stderr } = await rehearseUpgradeOf(icu.url, 18, newBin);
      expect(exitCode, stderr).toBe(1);
      expect(report).toMatchObject({ check: null, modes: [], verdict: { pass: false } });
      const found = byCode(report);
      expect(found.get('INITDB_FAILED')?.objects).toEqual([expect.stringMatching(/ICU is not supported/)]);
      expect(found.get('ICU_MISSING')?.objects).toContain('app');
      expect(found.get('REG_COLUMN')?.objects).toEqual(['app: public.names.fn regproc']);
    } finally {
      await icu.stop();
    }
  }, 60_000);
});

const OPTIONS = `SELECT DISTINCT split_part(option, '=', 1) AS name
  FROM pg_attribute CROSS JOIN unnest(attoptions) AS option WHERE attrelid = 'orders'::regclass`;

describe.skipIf(cannotUpgrade)('an upgrade to 18', () => {
  test('names options of columns that only the packages of the old version know, as in 15.20 of Debian', async () => {
    const old = await serverToUpgrade({ programs: CLIENTS.programs });
    try {
      await send(old.url, 'CREATE TABLE orders (id int, price numeric)');
      const { rows } = await withClient(old.url, (client) => client.query<{ name: string }>(OPTIONS));
      const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, fast);
      expect(exitCode, stderr).toBe(rows.length > 0 ? 1 : 0);
      const found = byCode(report).get('COLUMN_OPTION_UNKNOWN')?.objects ?? [];
      expect(found).toEqual(rows.map(({ name }) => name));
    } finally {
      await old.stop();
    }
  }, 120_000);

  test('passes for a cluster with data checksums, as after pg_checksums --enable, and names its standby', async () => {
    const old = await serverToUpgrade({
      make: async (folder, initdb) => {
        await initdb();
        await run(path.join(CLIENTS.programs, 'pg_checksums'), ['--enable', '-D', path.join(folder, 'data')]);
      },
    });
    try {
      await send(old.url, 'CREATE TABLE t AS SELECT 1 AS n');
      const standby = await withClient(old.server.url, (client) =>
        standbyOf(old.server, 15, async (sql) => (await client.query(sql)).rows),
      );
      const checksums = `SELECT current_setting('data_checksums')`;
      const args = [...newBin, '--modes', 'clone,swap', '--check', checksums];
      const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, args);
      expect(exitCode, stderr).toBe(0);
      expect(report?.modes.map(({ outcome }) => outcome)).toEqual(['passed', 'passed']);
      expect(report?.application?.checks).toMatchObject([{ name: checksums, passed: true }]);
      expect(byCode(report).has('CHECKSUMS_OFF')).toBe(false);
      expect(byCode(report).get('STANDBY')?.objects).toHaveLength(1);
      await standby.stop();
    } finally {
      await old.stop();
    }
  }, 120_000);

  test('passes for more tables than one transaction has locks for', async () => {
    // Some 900 locks: enough for the tables, of which pg_dump locks each, and not for their indexes as well.
    const old = await serverToUpgrade({
      settings: { max_connections: '30', max_locks_per_transaction: '10' },
    });
    try {
      await send(
        old.url,
        `DO $$BEGIN FOR n IN 1..5 LOOP EXECUTE format('CREATE SCHEMA s%s', n); END LOOP; END$$`,
        ...[1, 2, 3, 4, 5].map(
          (schema) => `DO $$BEGIN FOR n IN 1..120 LOOP
            EXECUTE format('CREATE TABLE s${schema}.t%s (id int PRIMARY KEY, name text NOT NULL)', n);
          END LOOP; END$$`,
        ),
        'CREATE VIEW firsts AS SELECT t1.name FROM s1.t1 JOIN s2.t1 AS other USING (id)',
      );
      const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, [
        ...newBin,
        ...['--modes', 'link', '--jobs', '2'],
      ]);
      expect(exitCode, stderr).toBe(0);
      expect(report?.modes.map(({ outcome }) => outcome)).toEqual(['passed']);
      expect(report?.application?.schemaChanges).toEqual([]);
    } finally {
      await old.stop();
    }
  }, 300_000);
});
