import { execFile } from 'node:child_process';
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { Copier } from '../../../../src/clone/cluster/copier.ts';
import { copyCluster } from '../../../../src/clone/cluster/copy-tree.ts';
import { type LoopFileSystem, loopFileSystem, loopFileSystemObstacle } from '../../../helpers/file-system.ts';
import { SERVER_UID } from '../../../helpers/placed-server.ts';
import { skipReason } from '../../../helpers/requirements.ts';

const MB = 2 ** 20;
const FILES = 2_500;
const run = promisify(execFile);

const obstacle = skipReason(await loopFileSystemObstacle('xfs'));

describe.skipIf(obstacle)('many files that share their blocks', () => {
  let disk: LoopFileSystem;
  let data: string;

  beforeAll(async () => {
    disk = await loopFileSystem('xfs', 320 * MB);
    data = path.join(disk.folder, 'data');
    await mkdir(path.join(data, 'base', '5'), { recursive: true });
    await mkdir(path.join(data, 'global'));
    await writeFile(path.join(data, 'global', 'pg_control'), 'control');
    for (let file = 0; file < FILES; file++)
      await writeFile(path.join(data, 'base', '5', `${file}`), `file ${file}`);
  }, 60_000);
  afterAll(() => disk.destroy());

  async function copy(to: string, signal: AbortSignal, onFile: () => void): Promise<void> {
    const folder = path.join(disk.folder, to);
    await mkdir(folder);
    const owner = SERVER_UID === undefined ? null : { uid: SERVER_UID, gid: SERVER_UID };
    const layout = {
      data,
      wal: path.join(data, 'pg_wal'),
      tablespaces: [],
      logFolder: undefined,
      replaced: new Set<string>(),
      databases: new Set(['5']),
      onOneDevice: true,
    };
    const copier = new Copier({ share: true, folder, owner, maxCopyBytes: MB, signal });
    await copyCluster(layout, folder, copier, onFile);
  }

  test('all arrive, share their blocks, and belong to the server; one that has gone does not matter', async () => {
    let copied = 0;
    await copy('copy', new AbortController().signal, () => {
      if (copied++ === 0) void rm(path.join(data, 'base', '5', String(FILES - 1)));
    });
    const to = path.join(disk.folder, 'copy', 'data', 'base', '5');
    expect((await readdir(to)).length).toBeGreaterThanOrEqual(FILES - 1);
    expect(await readFile(path.join(to, '1234'), 'utf8')).toBe('file 1234');
    if (SERVER_UID !== undefined) expect((await stat(path.join(to, '1234'))).uid).toBe(SERVER_UID);
    const { stdout } = await run('filefrag', ['-v', path.join(to, '1234')]);
    expect(stdout).toContain('shared');
    expect(copied).toBe(FILES);
  });

  test('an interrupted run ends the copying', async () => {
    const run = new AbortController();
    const ends = copy('stopped', run.signal, () => run.abort(new Error('interrupted')));
    await expect(ends).rejects.toThrow('interrupted');
    const copied = await readdir(path.join(disk.folder, 'stopped', 'data', 'base', '5'));
    expect(copied.length).toBeLessThan(FILES);
  });
});
