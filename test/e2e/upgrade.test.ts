import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { withClient } from '../helpers/client.ts';
import { debianPrograms } from '../helpers/placed-server.ts';
import { serverUrl, VERSIONS } from '../helpers/servers.ts';
import {
  cannotUpgrade,
  NEW,
  rehearseUpgradeOf,
  type ServerToUpgrade,
  serverToUpgrade,
} from '../helpers/upgrading.ts';

const DEBIAN = await debianPrograms(15);

// Whole rehearsals, in all modes, are tried by test/tools/upgrade.test.ts.
describe.skipIf(cannotUpgrade)('the rehearsal of an upgrade', () => {
  const newBin = ['--new-bin', NEW.programs];
  let old: ServerToUpgrade;

  beforeAll(async () => {
    old = await serverToUpgrade();
    await withClient(old.url, (client) => client.query('CREATE TABLE t AS SELECT 1 AS n; ANALYZE t'));
  }, 60_000);
  afterAll(() => old?.stop());

  test('does not pass if users would wait longer than they may', async () => {
    const args = [...newBin, '--modes', 'link', '--limit', 'downtime=1ms'];
    const { report, exitCode, stderr } = await rehearseUpgradeOf(old.url, 18, args);
    expect(exitCode, stderr).toBe(1);
    expect(report?.modes).toMatchObject([{ mode: 'link', outcome: 'passed', wayBack: false }]);
    expect(report?.verdict.reasons).toEqual([
      expect.stringMatching(/^users would wait .* \(--limit downtime\)$/),
    ]);
  }, 60_000);

  test.each(VERSIONS.filter((version) => version === 15 || version === 18))(
    'is refused from %d to the same version, and to an older one',
    async (version) => {
      const same = await rehearseUpgradeOf(serverUrl(version), version, newBin);
      expect(same).toMatchObject({ exitCode: 4, report: null });
      expect(same.stderr).toContain(`--to ${version} is no major upgrade`);
      const older = await rehearseUpgradeOf(serverUrl(version), 14, newBin);
      expect(older).toMatchObject({ exitCode: 4, report: null });
      expect(older.stderr.replace(/\s+/g, ' ')).toContain('which is newer than 14');
    },
  );

  test('is referred to the service at which nobody gets the files', async () => {
    await withClient(old.url, (client) => client.query('CREATE ROLE rds_superuser; CREATE ROLE app LOGIN'));
    const url = new URL(old.url);
    url.username = 'app';
    const ended = await rehearseUpgradeOf(url.href, 18, newBin);
    expect(ended).toMatchObject({ exitCode: 3, report: null });
    expect(ended.stderr.replace(/\s+/g, ' ')).toContain(
      'Amazon RDS gives out no files: let it upgrade a clone to 18 with --clone rds',
    );
    // Other tests say template, which an upgrade cannot use.
    expect(ended.stderr).toContain('not by template');
    const other = await rehearseUpgradeOf(url.href, 18, ['--clone', 'neon']);
    expect(other).toMatchObject({ exitCode: 3, report: null });
    expect(other.stderr.replace(/\s+/g, ' ')).toContain('These do: rds, aurora.');
  }, 60_000);

  test('is refused if programs are missing', async () => {
    const absent = await rehearseUpgradeOf(old.url, 18, [], { PATH: '/usr/bin:/bin' });
    expect(absent).toMatchObject({ exitCode: 3, report: null });
    expect(absent.stderr).toContain('postgresql-18');
    const other = await rehearseUpgradeOf(old.url, 18, ['--new-bin', DEBIAN.programs]);
    expect(other).toMatchObject({ exitCode: 3, report: null });
    expect(other.stderr).toContain('not of 18');
    const partly = await rehearseUpgradeOf(old.url, 18, ['--new-bin', '/usr/bin']);
    expect(partly.stderr).toMatch(/\/usr\/bin lacks .*pg_upgrade/);
  }, 60_000);
});
