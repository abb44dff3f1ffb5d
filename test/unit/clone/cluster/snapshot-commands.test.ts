import { describe, expect, test } from 'vitest';
import { placesIn, snapshotCommands } from '../../../../src/clone/cluster/snapshot.ts';
import type { Snapshots } from '../../../../src/clone/cluster/volumes.ts';
import { newRunId } from '../../../../src/ownership/run-id.ts';

const run = newRunId();
const of = (changes: Partial<Snapshots>): Snapshots => ({
  kind: 'zfs',
  volumes: [
    { root: '/srv/pg', dataset: "tank/pg's data" },
    { root: '/srv/wal', dataset: 'tank/wal' },
  ],
  data: { volume: 0, relative: '18/main' },
  wal: { volume: 1, relative: '' },
  tablespaces: new Map([['16400', { volume: 0, relative: '18/main/inner' }]]),
  atomic: true,
  ...changes,
});

describe('the commands of snapshots', () => {
  test('take those of several datasets of a pool in one call, which is atomic', () => {
    const { take } = snapshotCommands(of({}), run, '/c');
    const clone = (part: string) =>
      ['zfs', 'clone', '-o', `mountpoint=${part}`, '-o', 'readonly=off', '-o', 'snapdir=hidden'] as const;
    expect(take).toEqual([
      ['zfs', 'snapshot', `tank/pg's data@safemigrate_${run}`, `tank/wal@safemigrate_${run}`],
      [...clone('/c/parts/0'), `tank/pg's data@safemigrate_${run}`, `tank/pg's data/safemigrate_${run}`],
      [...clone('/c/parts/1'), `tank/wal@safemigrate_${run}`, `tank/wal/safemigrate_${run}`],
    ]);
  });

  test('take one after the other within a backup', () => {
    const { take } = snapshotCommands(of({ atomic: false }), run, '/c');
    expect(take.slice(0, 2)).toEqual([
      ['zfs', 'snapshot', `tank/pg's data@safemigrate_${run}`],
      ['zfs', 'snapshot', `tank/wal@safemigrate_${run}`],
    ]);
  });

  test('destroy the clone with the snapshots that others took of it, then our snapshot alone', () => {
    const { release } = snapshotCommands(of({}), run, '/c');
    expect(release).toContain(`zfs destroy -r 'tank/wal/safemigrate_${run}'`);
    expect(release).toContain(`zfs destroy 'tank/wal@safemigrate_${run}'`);
    expect(release).toContain(`'tank/pg'\\''s data@safemigrate_${run}'`);
  });

  test('clone a snapshot that is there already, and leave it', () => {
    const volumes = [{ root: '/srv/pg', dataset: 'tank/pg' }];
    const { take, release } = snapshotCommands(of({ volumes, existing: 'tank/pg@monday' }), run, '/c');
    expect(take.map((words) => words.slice(-2))).toEqual([['tank/pg@monday', `tank/pg/safemigrate_${run}`]]);
    expect(release).not.toContain('@');
  });

  test('of btrfs lie in the folder of the clone', () => {
    const { take, rollback } = snapshotCommands(
      of({ kind: 'btrfs', volumes: [{ root: '/srv', dataset: null }] }),
      run,
      '/srv/c',
    );
    expect(take).toEqual([['btrfs', 'subvolume', 'snapshot', '/srv', '/srv/c/parts/0']]);
    expect(rollback).toBeUndefined();
  });
});

test('what the server of a clone may see of snapshots is its own folders, each once', () => {
  expect(placesIn('/c', of({}))).toEqual(['/c/parts/0/18/main', '/c/parts/1']);
});
