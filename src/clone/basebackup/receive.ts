import { once } from 'node:events';
import { open, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { SafemigrateError } from '../../errors.ts';
import { endGroup, makeWorkFolder } from '../../local-server/folder-cleaner.ts';
import { nameTarget } from '../../ownership/folder-records.ts';
import { clientEnvironment } from '../../postgres/connection/client-environment.ts';
import { applicationName } from '../../postgres/connection/connect.ts';
import type { CloneContext } from '../method.ts';
import type { BackupServer } from './probe.ts';

const PROGRESS = `
SELECT b.backup_streamed AS done, b.backup_total AS "of"
  FROM pg_stat_progress_basebackup b JOIN pg_stat_activity a USING (pid)
 WHERE a.application_name = $1 AND b.backup_total > 0`;
const PROGRESS_EVERY_MS = 500;
const ENDING_MS = 5_000;

/** Returns the function that creates `data` and `tablespaces/<oid>` in the folder, with the WAL that recovery needs. */
export function receivingWords(
  { options, run }: CloneContext,
  { client, tablespaces }: BackupServer,
  folder: string,
): string[] {
  return [
    path.join(client.folder, 'pg_basebackup'),
    `--pgdata=${path.join(folder, 'data')}`,
    '--format=plain',
    '--wal-method=stream',
    `--checkpoint=${options.checkpoint}`,
    `--label=safemigrate ${run}`,
    '--no-password',
    '--no-manifest',
    // The clone need not survive a crash of this machine.
    '--no-sync',
    ...tablespaces.map(
      ({ oid, location }) =>
        `--tablespace-mapping=${mapped(location)}=${mapped(path.join(folder, 'tablespaces', oid))}`,
    ),
  ];
}

function mapped(place: string): string {
  return place.replaceAll('=', '\\=');
}

/**
 * Runs pg_basebackup, as the user who will own the files, in a process group that ends with us, however we end.
 * @throws SafemigrateError `CLONE` with its output; the signal's reason.
 */
export async function receiveBasebackup(
  context: CloneContext,
  found: BackupServer,
  folder: string,
): Promise<void> {
  const { signal, run } = context;
  const { folder: place, guard } = await makeWorkFolder(tmpdir(), 'log', nameTarget(context.target));
  try {
    const log = await open(path.join(place, 'log'), 'wx', 0o600);
    try {
      const [program = '', ...words] = receivingWords(context, found, folder);
      const named = applicationName({ run, purpose: 'basebackup' });
      const child = await guard.launch(program, words, {
        environment: clientEnvironment((context.source ?? context.target).settings, {
          applicationName: named,
        }),
        uid: process.getuid?.() === 0 ? found.owner.uid : undefined,
        output: log.fd,
      });
      const ended = once(child, 'exit').then(([code]) => code as number | null);
      const stop = () => endGroup(child.pid);
      signal.addEventListener('abort', stop, { once: true });
      if (signal.aborted) stop();
      const watching = watch(context, named, ended);
      const code = await Promise.race([ended, afterAbort(signal)]);
      signal.removeEventListener('abort', stop);
      signal.throwIfAborted();
      await watching;
      if (code !== 0) throw await failure(place);
    } finally {
      await log.close();
    }
  } finally {
    await guard.dismiss();
  }
}

/** Settles only after an abort; a program that does not end then is left to the process guard. */
function afterAbort(signal: AbortSignal): Promise<null> {
  return new Promise((resolve) => {
    const late = () => void delay(ENDING_MS, undefined, { ref: false }).then(() => resolve(null));
    if (signal.aborted) late();
    else signal.addEventListener('abort', late, { once: true });
  });
}

/** Reads the progress; none if the role may not see it. */
async function watch({ control, emit }: CloneContext, named: string, ended: Promise<unknown>): Promise<void> {
  let running = true;
  const settled = ended.then(() => {
    running = false;
  });
  while (running) {
    const rows = await control
      .query<{ done: string; of: string }>(PROGRESS, [named])
      .catch((): { done: string; of: string }[] => []);
    for (const { done, of } of rows)
      emit({ type: 'progress', phase: 'clone', done: Number(done), of: Number(of), unit: 'bytes' });
    await Promise.race([settled, delay(PROGRESS_EVERY_MS)]);
  }
}

async function failure(place: string): Promise<SafemigrateError> {
  const said = await readFile(path.join(place, 'log'), 'utf8').catch(() => '');
  const lines = said.trim().split('\n').slice(-8);
  return new SafemigrateError(
    'CLONE',
    `pg_basebackup failed:\n${lines.map((line) => `  ${line}`).join('\n')}`,
    {
      hint:
        'The target was not changed. Try again: two WAL senders must be free, pg_hba.conf must let the role in for the database ' +
        '"replication", and the server must not be restarted, promoted or replaced during the copy.',
    },
  );
}
