import { existsSync, readdirSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { registryFolder } from '../../src/ownership/folder-records.ts';
import { safemigrate, sqlCommand, temporaryFolder } from '../helpers/cli.ts';
import { withClient } from '../helpers/client.ts';
import { changedUrl } from '../helpers/cloning.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../helpers/file-system.ts';
import { type PlacedServer, placedServer } from '../helpers/placed-server.ts';
import { rehearse } from '../helpers/rehearse.ts';
import { skipReason } from '../helpers/requirements.ts';

const HOUR_MS = 3_600_000;
const LIBRARY = `/usr/lib/${process.arch === 'arm64' ? 'aarch64' : 'x86_64'}-linux-gnu/faketime/libfaketimeMT.so.1`;
const obstacle =
  (await loopFileSystemObstacle('xfs')) ?? (existsSync(LIBRARY) ? null : 'libfaketime is not installed');

describe.skipIf(skipReason(obstacle))('a clock that is set while a rehearsal runs', () => {
  let disk: LoopFileSystem;
  let server: PlacedServer;
  let url: string;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 900 * 2 ** 20);
    server = await placedServer(18, {
      parent: disk.folder,
      settings: { max_wal_size: '64MB', min_wal_size: '32MB', fsync: 'off' },
    });
    url = changedUrl(server.url, { database: 'shop' });
    await withClient(server.url, (client) => client.query('CREATE DATABASE shop'));
  }, 60_000);
  afterAll(async () => {
    await server?.stop();
    await disk?.destroy();
  });

  /** A clock for the tool and all that it starts, its watchdog among them; the command sets it once it runs. */
  function clock() {
    const file = path.join(temporaryFolder(), 'clock');
    writeFileSync(file, '+0\n');
    const env = {
      LD_PRELOAD: LIBRARY,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: '1',
      // Nobody can set that one.
      FAKETIME_DONT_FAKE_MONOTONIC: '1',
    };
    return { env, file };
  }

  test.each([
    ['a day forwards', '+1d', 'cluster'],
    ['a day back', '-1d', 'cluster'],
    ['a day back', '-1d', 'template'],
  ])('%s (%s, %s): it goes on, and no duration tells of it', async (_what, by, clone) => {
    const { env, file } = clock();
    const command = [
      'sh',
      '-c',
      // The sampler of locks looks at it before and after.
      `"$0" "$1" 'CREATE TABLE made (id int)'; echo '${by}' > '${file}'; sleep 2.5
       "$0" "$1" "DO \\$\\$ BEGIN ALTER TABLE made ADD n int; PERFORM pg_sleep(0.3); END \\$\\$"`,
      ...sqlCommand(''),
    ];
    const run = await rehearse(url, command, { args: ['--clone', clone, '--sandbox', 'off'], env });
    expect(run.exitCode, run.stderr).toBe(0);
    const { report } = run;
    expect(report.statements).toHaveLength(2);
    expect(Date.parse(report.run.finishedAt) - Date.parse(report.run.startedAt)).toBeLessThan(HOUR_MS);
    for (const [path, value] of durations(report)) {
      expect(value, path).toBeGreaterThanOrEqual(0);
      expect(value, path).toBeLessThan(HOUR_MS);
    }
    expect(report.target.unchanged).toBe(true);
    expect(report.cleanup.failed).toEqual([]);
    expect(existsSync(registryFolder()) ? readdirSync(registryFolder()) : []).toEqual([]);
  });

  test('a day back: what a killed run left is listed, and cleaned', async () => {
    const { env, file } = clock();
    writeFileSync(file, '+1d\n');
    const killed = await safemigrate(['--', 'sh', '-c', 'kill -9 $PPID'], {
      env: { ...env, DATABASE_URL: url, SAFEMIGRATE_SANDBOX: 'off' },
    });
    expect(killed.signal).toBe('SIGKILL');
    const list = await safemigrate(['list'], { env: { DATABASE_URL: url } });
    expect(list.stdout).toMatch(/shop_rehearsal_\w+ +clone of a dead run +0 ms ago/);
    const cleaned = await safemigrate(['clean'], { env: { DATABASE_URL: url } });
    expect(cleaned).toMatchObject({
      exitCode: 0,
      stdout: expect.stringMatching(/^dropped shop_rehearsal_\w+$/m),
    });
  });
});

/** Every duration of a report, with its path. */
function durations(value: unknown, at = ''): [string, number][] {
  if (typeof value === 'number') return at.endsWith('Ms') ? [[at, value]] : [];
  if (typeof value !== 'object' || value === null) return [];
  return Object.entries(value).flatMap(([key, each]) => durations(each, `${at}.${key}`));
}
