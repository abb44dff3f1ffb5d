import { execFile } from 'node:child_process';
import { chmod, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { snapshotCommands } from '../../../../src/clone/cluster/snapshot.ts';
import { newRunId } from '../../../../src/ownership/run-id.ts';
import { temporaryFolder } from '../../../helpers/cli.ts';

const run = promisify(execFile);
const { release } = snapshotCommands(
  {
    kind: 'zfs',
    atomic: true,
    volumes: [{ root: '/srv', dataset: "tank/pg's data" }],
    data: { volume: 0, relative: '' },
    wal: null,
    tablespaces: new Map(),
  },
  newRunId(),
  '/srv/c',
);

/** In place of `zfs destroy`: what the real one says, which cannot be provoked. */
test.each([
  ['nothing, since it has destroyed it', 'true', true],
  ['that there is none', `echo "cannot open 'a': dataset does not exist" >&2; exit 1`, true],
  ['that there is no such snapshot', 'echo "could not find any snapshots to destroy" >&2; exit 1', true],
  ['that it is busy', `echo "cannot destroy 'a': dataset is busy" >&2; exit 1`, false],
  ['that it got no answer', 'echo "internal error: out of memory" >&2; exit 1', false],
])('datasets are gone, or not, if ZFS says %s', async (_what, body, gone) => {
  const folder = temporaryFolder();
  const zfs = path.join(folder, 'zfs');
  await writeFile(zfs, `#!/bin/sh\n${body}\n`);
  await chmod(zfs, 0o755);
  const released = run('sh', ['-c', release], { env: { PATH: `${folder}:${process.env.PATH}` } }).then(
    () => true,
    () => false,
  );
  expect(await released).toBe(gone);
});
