import { readdirSync } from 'node:fs';
import path from 'node:path';
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { apply } from '../helpers/apply.ts';
import { safemigrate, sqlCommand } from '../helpers/cli.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import {
  fillUp,
  type LoopFileSystem,
  loopFileSystemObstacle,
  memoryFileSystem,
} from '../helpers/file-system.ts';
import { skipReason } from '../helpers/requirements.ts';
import { useOwnServers } from '../helpers/servers.ts';

const CREATE = 'CREATE TABLE made (id int)';

/** What a run writes at its end: files of the report, the receipt, the report for `show`. */
describe.skipIf(skipReason(await loopFileSystemObstacle('ext4')))(
  'a disk that is full at the end of a run',
  () => {
    let disk: LoopFileSystem;
    let url: string;
    beforeAll(() => useOwnServers(18));
    beforeEach(async () => {
      disk = await memoryFileSystem(64 * 1024);
      ({ url } = await temporaryDatabase(18));
    });
    afterEach(() => disk.destroy());

    const place = (name: string) => path.join(disk.folder, name);
    const tables = () =>
      withClient(url, async (client) => {
        const { rows } = await client.query("SELECT relname AS name FROM pg_class WHERE relname = 'made'");
        return rows.length;
      });
    /** Fills the disk before it migrates. */
    const filling = () => [
      'sh',
      '-c',
      `cat /dev/zero > '${place('filler')}'; exec "$@"`,
      'sh',
      ...sqlCommand(CREATE),
    ];

    test('is told of, and leaves no file with a part of a report', async () => {
      const env = { DATABASE_URL: url, XDG_STATE_HOME: disk.folder };
      expect((await safemigrate(['--', ...sqlCommand(CREATE)], { env })).exitCode).toBe(0);
      await fillUp(disk);
      const names = ['report.json', 'report.html', 'receipt.json'];
      const [report, page, receipt] = names.map(place) as [string, string, string];
      const args = ['--report', report, '--report', page, '--receipt', receipt, '--', ...sqlCommand(CREATE)];
      const { exitCode, stderr } = await safemigrate(args, { env });
      expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 });
      expect(stderr).toContain('PASSED');
      expect(stderr).toContain(`the receipt could not be written to ${receipt}: ENOSPC`);
      for (const file of [report, page])
        expect(stderr).toContain(`The report could not be written to ${file}: ENOSPC`);
      expect(stderr).toContain('The report is not kept for `safemigrate show`: ENOSPC');
      expect(readdirSync(disk.folder).filter((name) => names.includes(name))).toEqual([]);
      // The last one that could be kept.
      expect(await safemigrate(['show'], { env })).toMatchObject({ exitCode: 0, stderr: '' });
    });

    test('does not hide that the target was changed: APPLIED, and what was lost', async () => {
      const report = place('report.json');
      const env = { XDG_STATE_HOME: disk.folder };
      const args = ['--report', report, '--audit', place('audit'), '--sandbox', 'off'];
      const run = await apply(url, filling(), { args, env });
      expect(run).toMatchObject({ exitCode: 0, apply: { outcome: 'applied' } });
      expect(run.stderr).toContain(
        'the apply keeps no journal, so `safemigrate list` will know nothing of it',
      );
      expect(run.stderr).toContain(`The report could not be written to ${report}: ENOSPC`);
      expect(run.stderr).toMatch(/The audit in \S+ lacks \d+ statements: ENOSPC/);
      expect(await tables()).toBe(1);
      const left = await safemigrate(['list'], { env: { ...env, DATABASE_URL: url } });
      expect(left.stdout).toMatch(/^Nothing of safemigrate is on/);
    });

    test('does not keep the clone from being dropped, although no statement can be audited', async () => {
      const args = ['--audit', place('audit'), '--sandbox', 'off', '--', ...filling()];
      const { exitCode, stderr } = await safemigrate(args, { env: { DATABASE_URL: url } });
      expect({ exitCode, stderr }).toMatchObject({ exitCode: 0 });
      expect(stderr).toMatch(/The audit in \S+ lacks \d+ statements: ENOSPC/);
      const left = await safemigrate(['list'], { env: { DATABASE_URL: url } });
      expect(left.stdout).toMatch(/^Nothing of safemigrate is on/);
    });
  },
);
