import { describe, expect, test } from 'vitest';
import type { Original } from '../../../src/clone/private/original.ts';
import { floorOf } from '../../../src/clone/private/private-server.ts';
import { libraryFoldersIn, sandboxArguments } from '../../../src/clone/private/sandbox.ts';
import { serverSettings } from '../../../src/clone/private/server-settings.ts';

const GB = 2 ** 30;

function settingsOf(
  settings: Record<string, string>,
  more: Partial<Original> & { versionNum?: number } = {},
) {
  const { versionNum = 180004, ...rest } = more;
  const original: Original = {
    settings: new Map(Object.entries(settings)),
    sharedBuffersBytes: GB / 8,
    superuser: 'postgres',
    partly: false,
    folders: [],
    ...rest,
  };
  return serverSettings(original, {
    folder: '/clones/safemigrate_x',
    socketFolder: '/clones/safemigrate_x/socket',
    programs: '/nowhere/bin',
    run: 'x',
    versionNum,
  });
}

describe('the settings of a server on a copy', () => {
  test('are those of the original that count for plans, locks, WAL and results', async () => {
    const { file } = await settingsOf({
      work_mem: '7168',
      wal_level: 'logical',
      fsync: 'on',
      max_prepared_transactions: '5',
      'app.tenant': "it's \\ 1",
    });
    expect(file.split('\n')).toEqual([
      "work_mem = '7168'",
      "wal_level = 'logical'",
      "fsync = 'on'",
      "max_prepared_transactions = '5'",
      "app.tenant = 'it''s \\\\ 1'",
      '',
    ]);
  });

  test.each([
    'listen_addresses',
    'port',
    'unix_socket_directories',
    'hba_file',
    'data_directory',
    'archive_mode',
    'archive_command',
    'archive_cleanup_command',
    'recovery_end_command',
    'restore_command',
    'primary_conninfo',
    'synchronous_standby_names',
    'log_directory',
    'logging_collector',
    'ssl_cert_file',
    'ssl_passphrase_command',
    'stats_temp_directory',
    'huge_pages',
    'shared_buffers',
  ])('do not have the original’s %s', async (name) => {
    expect((await settingsOf({ [name]: 'theirs' })).file).toBe('');
  });

  test('name what would act as the original where nothing can change it any more', async () => {
    const { fixed } = await settingsOf({});
    expect(fixed).toMatchObject({
      listen_addresses: '',
      archive_mode: 'off',
      primary_conninfo: '',
      synchronous_standby_names: '',
      sync_replication_slots: 'off',
      max_logical_replication_workers: '0',
    });
  });

  test.each([
    [140000, ['archive_library', 'sync_replication_slots', 'synchronized_standby_slots', 'summarize_wal']],
    [160000, ['sync_replication_slots', 'synchronized_standby_slots', 'summarize_wal']],
    [170000, []],
  ])('of version %i lack what it does not know', async (versionNum, unknown) => {
    const [all, these] = await Promise.all([settingsOf({}), settingsOf({}, { versionNum })]);
    const missing = Object.keys(all.fixed).filter((name) => !(name in these.fixed));
    expect(missing.sort()).toEqual([...unknown].sort());
  });

  test('keep background workers where all preloaded libraries are known to start no jobs', async () => {
    const { file, fixed, caveats } = await settingsOf({
      shared_preload_libraries: 'pg_stat_statements,"$libdir/auto_explain"',
      max_worker_processes: '12',
    });
    expect(file).toContain("max_worker_processes = '12'");
    expect(file).toContain(`shared_preload_libraries = '"pg_stat_statements", "$libdir/auto_explain"'`);
    expect(fixed).not.toHaveProperty('max_worker_processes');
    expect(caveats).toEqual([]);
  });

  test.each(['pg_cron', 'timescaledb', 'pg_net', 'citus'])(
    'allow no background worker where %s is preloaded, and say so',
    async (library) => {
      const { file, fixed, caveats } = await settingsOf({
        shared_preload_libraries: `pg_stat_statements, ${library}`,
        max_worker_processes: '12',
      });
      expect(file).not.toContain('max_worker_processes');
      expect(fixed.max_worker_processes).toBe('0');
      expect(caveats.map(({ reason }) => reason)).toEqual([expect.stringContaining(library)]);
    },
  );

  test('take little memory, and say so where the original has more', async () => {
    expect((await settingsOf({}, { sharedBuffersBytes: 16 * 2 ** 20 })).fixed.shared_buffers).toBe('16384kB');
    const { fixed, caveats } = await settingsOf({}, { sharedBuffersBytes: 8 * GB });
    expect(fixed.shared_buffers).toBe('131072kB');
    expect(caveats.map(({ reason }) => reason)).toEqual([expect.stringContaining("the target's 8 GB")]);
  });
});

describe('what the server of a clone sees', () => {
  const operations = (programs: string, hidden: string[], folder: string) => {
    const own = { folder, socketFolder: `${folder}/socket` };
    const [mountpoint, home, ...words] = sandboxArguments({ programs, libraries: [], hidden }, own);
    const pairs = words.flatMap((word, index) => (index % 3 === 0 ? [`${word} ${words[index + 2]}`] : []));
    return { mountpoint, home, pairs: pairs.filter((pair) => !/^ro (\/\w+|\/var\/cache\/\w+)$/.test(pair)) };
  };
  const DEBIAN = '/usr/lib/postgresql/18/bin';

  test('is its own folder, and of the original’s nothing even where the machine’s libraries lie', () => {
    expect(operations(DEBIAN, ['/opt/data', '/ssd/space', '/run/postgresql'], '/opt/safemigrate_a')).toEqual({
      mountpoint: '/run',
      home: '/opt/safemigrate_a',
      pairs: ['hide /opt/data', 'rw /opt/safemigrate_a'],
    });
  });

  test('is written so that spaces and backslashes do not end a path of the table', () => {
    const { pairs } = operations(DEBIAN, [], '/srv/my data\\1/safemigrate_a');
    expect(pairs).toEqual(['rw /srv/my\\040data\\1341/safemigrate_a']);
  });

  test('are the programs, wherever they are installed, also inside a folder of the original', () => {
    const { pairs } = operations('/opt/pg/bin', ['/opt/pg', '/opt/pg/share/data'], '/data/safemigrate_a');
    expect(pairs).toEqual([
      ...['rw /data/safemigrate_a', 'hide /opt/pg', 'ro /opt/pg/bin', 'ro /opt/pg/lib', 'ro /opt/pg/lib64'],
      ...['ro /opt/pg/share', 'hide /opt/pg/share/data'],
    ]);
  });

  test('is put together in a folder that holds none of it', () => {
    expect(operations(DEBIAN, [], '/run/clones/safemigrate_a').mountpoint).toBe('/mnt');
  });

  test('are the folders of libraries that the original’s settings name', () => {
    const settings = new Map([
      ['dynamic_library_path', '/srv/lib:$libdir'],
      ['shared_preload_libraries', '"/data/ours/audit.so", pg_stat_statements'],
    ]);
    expect(libraryFoldersIn(settings)).toEqual(['/srv/lib', '/data/ours']);
  });
});

test.each([
  [GB / 2, GB / 20],
  [15 * GB, GB],
  [100 * GB, 5 * GB],
  [1000 * GB, 10 * GB],
])('on a file system of %d bytes a clone ends below %d bytes of free space', (size, floor) => {
  expect(floorOf(size)).toBe(Math.floor(floor));
});
