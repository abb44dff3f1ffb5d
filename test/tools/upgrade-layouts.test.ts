import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { describe, expect, test } from 'vitest';
import { upgradeReport } from '../../src/model/upgrade-model.ts';
import { PROGRAM, runProgram } from '../helpers/cli.ts';
import { loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { asUser } from '../helpers/other-user.ts';
import { ownFolder, SERVER_UID } from '../helpers/placed-server.ts';
import { skipReason } from '../helpers/requirements.ts';
import { EVERYTHING } from '../helpers/share.ts';
import { makeAccounts } from '../helpers/transfers.ts';
import {
  cannotUpgrade,
  NEW,
  OLD,
  reachable,
  rehearseUpgradeOf,
  serverToUpgrade,
} from '../helpers/upgrading.ts';
import { btrfsVolumes, LAYOUTS, serverIn } from '../helpers/volumes.ts';

const MB = 2 ** 20;
const noBtrfs = skipReason(await loopFileSystemObstacle('btrfs'));

describe.skipIf(cannotUpgrade || noBtrfs)('an upgrade of a cluster on btrfs', () => {
  // The last has most parts.
  test.each(EVERYTHING ? [LAYOUTS[0], LAYOUTS[2], LAYOUTS[4]] : [LAYOUTS[4]])(
    'is rehearsed in all modes on a snapshot if %s',
    async (layout) => {
      const disk = await loopFileSystem('btrfs', 3072 * MB);
      try {
        const volumes = btrfsVolumes(disk.folder);
        const settings = { max_wal_size: '100MB' };
        const server = await serverIn(layout, volumes, 15, { programs: OLD.programs, settings });
        const before = await volumes.list();
        const args = ['--new-bin', NEW.programs, '--check', 'SELECT count(*), sum(balance) FROM account'];
        const { report, exitCode, stderr } = await rehearseUpgradeOf(server.url, 18, args);
        expect(exitCode, stderr).toBe(0);
        expect(report?.clone).toMatchObject({ strategy: 'btrfs snapshot', containment: 'sandbox' });
        expect(report?.modes.map(({ mode, outcome }) => [mode, outcome])).toEqual([
          ['copy', 'passed'],
          ['clone', 'passed'],
          ['link', 'passed'],
          ['swap', 'passed'],
        ]);
        expect(report?.application?.checks).toMatchObject([{ passed: true }]);
        expect(await volumes.list()).toEqual(before);
        await server.stop();
      } finally {
        await disk.destroy();
      }
    },
    120_000,
  );
});

describe.skipIf(cannotUpgrade || skipReason(SERVER_UID === undefined ? 'another user needs root' : null))(
  "an upgrade that the server's own user rehearses",
  () => {
    test('is rehearsed just as by root', async () => {
      const old = await serverToUpgrade();
      const home = await mkdtemp(path.join(tmpdir(), 'safemigrate-home-'));
      try {
        await makeAccounts(old.url);
        const state = path.join(home, 'state');
        await ownFolder(state);
        await runProgram(['chmod', '755', home]);
        const programs = await reachable(NEW.programs, path.dirname(old.server.folder));
        const words = ['upgrade', '--to', '18', '--url', old.url, '--new-bin', programs, '--format', 'json'];
        const { exitCode, stdout, stderr } = await runProgram([...asUser(SERVER_UID), ...PROGRAM, ...words], {
          env: { HOME: state, XDG_STATE_HOME: state },
        });
        expect(exitCode, stderr).toBe(0);
        const report = upgradeReport.parse(JSON.parse(stdout));
        expect(report.clone).toMatchObject({ strategy: 'reflink', containment: 'sandbox' });
        expect(report.modes.map(({ outcome }) => outcome)).toEqual(['passed', 'passed', 'passed', 'passed']);
      } finally {
        await rm(home, { recursive: true, force: true });
        await old.stop();
      }
    }, 120_000);
  },
);
