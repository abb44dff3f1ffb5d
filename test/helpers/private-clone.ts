import { execFile } from 'node:child_process';
import { chmod, mkdtemp, realpath, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import type { Clone } from '../../src/clone/method.ts';
import type { FilledFolder } from '../../src/clone/private/private-server.ts';
import { type PrivateServer, startPrivateCluster } from '../../src/clone/private-cluster.ts';
import type { SafemigrateError } from '../../src/errors.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import type { ConnectionSettings } from '../../src/postgres/connection/connection-settings.ts';
import type { Session } from '../../src/postgres/connection/session.ts';
import { withClient } from './client.ts';
import { type Cloning, type CloningOptions, withCloning } from './cloning.ts';
import { programsOf } from './own-server.ts';

const run = promisify(execFile);

/** A folder that every user may enter, for clones and for the state folder of a test file. */
export async function enterableFolder(parent = tmpdir()): Promise<{ path: string; remove(): Promise<void> }> {
  const folder = await realpath(await mkdtemp(path.join(parent, 'private-')));
  await chmod(folder, 0o755);
  return { path: folder, remove: () => rm(folder, { recursive: true, force: true }) };
}

/** How a data directory gets copied where nothing depends on it: in backup mode, by `cp`. */
export async function copyByHand(server: Server, folder: string): Promise<FilledFolder> {
  const [start, stop] =
    server.version === 14
      ? [
          `SELECT pg_start_backup('test', true, false)`,
          'SELECT labelfile AS label FROM pg_stop_backup(false, false)',
        ]
      : [`SELECT pg_backup_start('test', true)`, 'SELECT labelfile AS label FROM pg_backup_stop(false)'];
  const data = path.join(folder, 'data');
  // Files that go missing under cp, as the server removes and renames them, are not needed.
  const copy = (from: string, to: string) => run('cp', ['-a', '--reflink=auto', from, to]).catch(() => {});
  await withClient(server.url, async (client) => {
    await client.query(start);
    await copy(path.join(server.folder, 'data'), data);
    const { rows } = await client.query<{ label: string }>(stop);
    await run('rm', ['-rf', path.join(data, 'pg_wal')]);
    await copy(path.join(server.folder, 'data', 'pg_wal'), path.join(data, 'pg_wal'));
    await run('sh', [
      '-c',
      'printf %s "$1" > "$2" && chown --reference="$3" "$2"',
      'sh',
      rows[0]?.label ?? '',
      path.join(data, 'backup_label'),
      data,
    ]);
  });
  return { touched: [], caveats: [], databases: null };
}

export interface PrivateClone extends Cloning {
  readonly clone: Clone;
  readonly folder: string;
}

/** A clone of the server's cluster, for the database at `url`, in a folder within `parent`. */
export async function withPrivateClone<T>(
  server: Server,
  url: string,
  options: CloningOptions & {
    parent: string;
    fill?: (folder: string) => Promise<FilledFolder>;
    fail?: (error: SafemigrateError) => void;
  },
  use: (made: PrivateClone) => Promise<T>,
): Promise<T> {
  return withCloning(url, options, async (cloning) => {
    const folder = path.join(options.parent, `safemigrate_${cloning.context.run}`);
    const uid = process.getuid?.() === 0 ? 65_534 : (process.getuid?.() ?? 0);
    const gid = process.getuid?.() === 0 ? 65_534 : (process.getgid?.() ?? 0);
    const cluster: PrivateServer = {
      method: 'cluster',
      assessment: {
        possible: true,
        strategy: 'copy',
        readyMs: 0,
        stallMs: 0,
        bytes: 0,
        endsSessions: false,
        isolation: 'own-cluster',
        containment: 'sandbox',
        reason: 'it is a test',
      },
      folder,
      owner: { uid, gid },
      programs: await programsOf(server.version),
      fill: options.fill ?? ((place) => copyByHand(server, place)),
    };
    const context = { ...cloning.context, ...(options.fail ? { fail: options.fail } : {}) };
    const clone = await startPrivateCluster(context, cluster, cloning.scope);
    return use({ ...cloning, clone, folder });
  });
}

export async function withSession<T>(
  settings: ConnectionSettings,
  use: (session: Session) => Promise<T>,
): Promise<T> {
  const session = await openSession(settings, { purpose: 'test' });
  try {
    return await use(session);
  } finally {
    await session.close();
  }
}
