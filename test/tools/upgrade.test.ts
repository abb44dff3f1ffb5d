import { readdir } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withClient } from '../helpers/client.ts';
import { makeAccounts, startTransfers } from '../helpers/transfers.ts';
import {
  cannotUpgrade,
  NEW,
  OLD,
  rehearseUpgradeOf,
  type ServerToUpgrade,
  serverToUpgrade,
} from '../helpers/upgrading.ts';

const MB = 2 ** 20;
const newBin = ['--new-bin', NEW.programs];

describe.skipIf(cannotUpgrade)("an upgrade of Debian's PostgreSQL 15 to 18", () => {
  let old: ServerToUpgrade;

  beforeAll(async () => {
    old = await serverToUpgrade({ settings: { max_prepared_transactions: '5', wal_level: 'logical' } });
    await makeAccounts(old.url);
    await query('ANALYZE');
  }, 60_000);
  afterAll(() => old?.stop());

  const query = (sql: string) => withClient(old.url, (client) => client.query(sql));

  describe('of a target in use', () => {
    test('is tried in all modes, and nobody on the target notices', async () => {
      const transfers = await startTransfers(old.url, 2);
      const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, newBin).finally(() =>
        transfers.end(),
      );
      expect(exitCode, stderr).toBe(0);
      expect(report?.modes).toMatchObject([
        { mode: 'copy', outcome: 'passed', wayBack: true },
        { mode: 'clone', outcome: 'passed', wayBack: true },
        { mode: 'link', outcome: 'passed', wayBack: false },
        { mode: 'swap', outcome: 'passed', wayBack: false },
      ]);
      for (const { phases, downtimeMs, peakBytes } of report?.modes ?? []) {
        const names = ['initdb', 'pg_upgrade', 'start', 'first statistics', 'statistics'];
        expect(phases.map(({ name }) => name)).toEqual(names);
        const down = phases.filter(({ name }) => name === 'pg_upgrade' || name === 'start');
        expect(downtimeMs).toBeCloseTo(down.reduce((sum, { durationMs }) => sum + durationMs, 0));
        expect(peakBytes).toBeGreaterThan(MB);
      }
      expect(report).toMatchObject({
        from: { major: 15, programs: OLD.programs },
        to: { major: 18, programs: NEW.programs },
        check: { passed: true },
        clone: { strategy: 'reflink' },
        carriesStatistics: true,
        verdict: { pass: true, reasons: [] },
        cleanup: { failed: [] },
      });
      expect(['copy', 'clone']).toContain(report?.recommendation?.mode);
      expect(stderr).toContain('users would wait');
      expect(stderr).toMatch(/^ +swap .* none$/m);
      const { failed, committed } = await transfers.end();
      expect(failed).toBe(0);
      expect(committed).toBeGreaterThan(0);
      const left = await readdir(old.server.folder);
      expect(left.filter((name) => name.startsWith('safemigrate'))).toEqual([]);
    }, 120_000);
  });

  describe('with obstacles', () => {
    test('names each with a remedy, with which the next rehearsal passes', async () => {
      await withClient(old.server.url, async (client) => {
        await client.query('CREATE DATABASE closed ALLOW_CONNECTIONS false');
        await client.query("CREATE ROLE old_login LOGIN PASSWORD 'md5b5f5ba1a423792b526f799ae4eb3d59e'");
        await client.query("SELECT pg_create_logical_replication_slot('feed', 'pgoutput')");
      });
      await query(`CREATE TABLE names (id int, fn regproc); CREATE DOMAIN grantees AS aclitem[];
        CREATE TABLE grants (id int, acl grantees); CREATE EXTENSION adminpack;
        CREATE TABLE parent (id int NOT NULL); CREATE TABLE child () INHERITS (parent);
        ALTER TABLE child ALTER COLUMN id DROP NOT NULL`);
      await query(`BEGIN; UPDATE account SET balance = 0 WHERE id = 1; PREPARE TRANSACTION 'left over'`);

      const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, newBin);
      expect(exitCode, stderr).toBe(1);
      expect(report?.modes).toEqual([]);
      const found = new Map(report?.obstacles.map((each) => [each.code, each]));
      expect(found.get('DATABASE_CLOSED')?.objects).toEqual(['closed']);
      expect(found.get('PREPARED_TRANSACTION')?.objects).toEqual(['left over in app']);
      expect(found.get('EXTENSION_MISSING')?.objects).toEqual([expect.stringMatching(/^app: adminpack /)]);
      expect(found.has('LIBRARY_MISSING')).toBe(false);
      expect(found.get('REG_COLUMN')?.objects).toEqual(['app: public.names.fn regproc']);
      expect(found.get('ACLITEM_COLUMN')?.objects).toEqual(['app: public.grants.acl public.grantees']);
      expect(found.get('NOT_NULL_OF_PARENT')?.objects).toEqual(['app: public.child.id']);
      expect(found.get('SLOT_LOST')?.objects).toEqual(['feed (postgres)']);
      expect(found.get('MD5_PASSWORD')?.objects).toEqual(['old_login']);
      expect(found.get('CHECKSUMS_OFF')).toMatchObject({ severity: 'notice' });
      const grave = report?.obstacles.filter(({ severity }) => severity === 'error') ?? [];
      expect(report?.verdict.reasons).toEqual(grave.map(({ code, message }) => `${code}: ${message}`));
      for (const { code, sql } of grave)
        for (const statement of code === 'EXTENSION_MISSING' ? ['DROP EXTENSION adminpack'] : sql)
          await query(statement);
      const again = await rehearseUpgradeOf(old.url, 18, [...newBin, '--modes', 'link']);
      expect(again.exitCode, again.stderr).toBe(0);
      expect(again.report?.obstacles.filter(({ severity }) => severity === 'error')).toEqual([]);
    }, 120_000);
  });
});

describe.skipIf(cannotUpgrade)('an upgrade that initdb of the new version does not permit', () => {
  test('fails, with what initdb said and with the other obstacles', async () => {
    const icu = await serverToUpgrade({
      make: (_, initdb) => initdb('--locale-provider=icu', '--icu-locale=de-AT'),
    });
    try {
      await withClient(icu.url, (client) => client.query('CREATE TABLE names (fn regproc)'));
      const { report, exitCode, stderr } = await rehearseUpgradeOf(icu.url, 18, newBin);
      expect(exitCode, stderr).toBe(1);
      expect(report).toMatchObject({ check: null, modes: [], verdict: { pass: false } });
      const found = new Map(report?.obstacles.map((each) => [each.code, each]));
      expect(found.get('INITDB_FAILED')?.objects).toEqual([expect.stringMatching(/ICU is not supported/)]);
      expect(found.get('ICU_MISSING')?.objects).toContain('app');
      expect(found.get('REG_COLUMN')?.objects).toEqual(['app: public.names.fn regproc']);
    } finally {
      await icu.stop();
    }
  }, 60_000);
});
