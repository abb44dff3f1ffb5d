import { once } from 'node:events';
import { open, readFile, realpath, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import { formatBytes } from '../../format.ts';
import { embeddedBinaries, type ServerVersion } from '../../local-server/binaries.ts';
import { type ClientPrograms, findClientPrograms } from '../../local-server/client-programs.ts';
import { endGroup, makeWorkFolder } from '../../local-server/folder-cleaner.ts';
import { needsReplica, reachableByOthers } from '../../local-server/installation.ts';
import { nameTarget } from '../../ownership/folder-records.ts';
import { clientEnvironment } from '../../postgres/connection/client-environment.ts';
import { applicationName, tryReplication } from '../../postgres/connection/connect.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { CloneContext, Impossible } from '../method.ts';
import { floorOf } from '../private/private-server.ts';

/** The facts that a base backup needs, found without changing anything. */
export interface BackupServer {
  readonly client: ClientPrograms;
  /** The folder in which a `postgres` of the target's major version is installed. */
  readonly binaries: string;
  /** The folder from which it is run: inside the clone's folder if it must be prepared first. */
  readonly programs: string;
  readonly folder: string;
  readonly owner: { readonly uid: number; readonly gid: number };
  readonly tablespaces: readonly { readonly oid: string; readonly location: string }[];
  /** Total size of the databases whose size the role may read. */
  readonly bytes: number;
}

const FACTS = `
SELECT (SELECT rolreplication OR rolsuper FROM pg_roles WHERE rolname = current_user) AS replicates,
       current_setting('wal_level') AS wal_level,
       current_setting('max_wal_senders')::int AS senders,
       (SELECT coalesce(sum(pg_database_size(oid)), 0)::int8 FROM pg_database
         WHERE has_database_privilege(oid, 'CONNECT') OR pg_has_role('pg_read_all_stats', 'USAGE')) AS bytes`;

const TABLESPACES = `
SELECT oid::text AS oid, pg_tablespace_location(oid) AS location
  FROM pg_tablespace WHERE spcname NOT IN ('pg_default', 'pg_global') AND pg_tablespace_location(oid) <> ''`;

/** PostgreSQL refuses to run as root; 65534 is `nobody` on Linux. */
const UNPRIVILEGED = { uid: 65_534, gid: 65_534 };

/** WAL senders: one for the files, one for the WAL written during the copy. */
const SENDERS = 2;

export async function probeBasebackup(context: CloneContext): Promise<BackupServer | Impossible> {
  const { control, target, rehearsal, run } = context;
  if (rehearsal)
    return impossible('--clone-to names another server to make the clone on', 'leave --clone-to out');
  const [facts] = await control.query<{
    replicates: boolean;
    wal_level: string;
    senders: number;
    bytes: string;
  }>(FACTS);
  if (!facts?.replicates) {
    const role = target.role.name;
    return impossible(`the role ${role} may not replicate`, `ALTER ROLE ${identifier(role)} REPLICATION;`);
  }
  if (facts.wal_level === 'minimal' || facts.senders < SENDERS)
    return impossible(
      `the server is set up for no replication (wal_level = ${facts.wal_level}, max_wal_senders = ${facts.senders})`,
      "wal_level = replica and max_wal_senders = 10, PostgreSQL's defaults; they need a restart",
    );
  const major = Math.floor(target.server.versionNum / 10_000);
  const client = await findClientPrograms({ programs: ['pg_basebackup'], atLeast: major });
  if ('reason' in client) return { possible: false, ...client };
  const binaries = await serverPrograms(major);
  if (typeof binaries !== 'string') return binaries;
  const bytes = Number(facts.bytes);
  const place = await findPlace(context, bytes);
  if (typeof place !== 'string') return place;
  const refusal = await refusalOf(context);
  if (refusal) return refusal;
  const asRoot = process.getuid?.() === 0;
  const folder = path.join(place, `safemigrate_${run}`);
  const replicated = await needsReplica(binaries, asRoot);
  return {
    client,
    binaries,
    folder,
    bytes,
    programs: replicated ? path.join(folder, 'installation', 'bin') : binaries,
    owner: asRoot ? UNPRIVILEGED : { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 },
    tablespaces: await control.query<{ oid: string; location: string }>(TABLESPACES),
  };
}

const NOT_LET_IN = '28000';

/** Tries a replication connection: only superusers can read pg_hba.conf, and only the server can match it. */
async function refusalOf(context: CloneContext): Promise<Impossible | undefined> {
  const { source, target, run, signal } = context;
  try {
    await tryReplication((source ?? target).settings, { run, signal, purpose: 'inspect' });
    return undefined;
  } catch (error) {
    if (!(error instanceof SafemigrateError) || error.code !== 'CONNECTION') throw error;
    if (sqlstateOf(error.cause) !== NOT_LET_IN) return impossible(error.message, error.hint);
    const name = identifier((source ?? target).settings.user);
    return impossible(
      `pg_hba.conf of the server does not let ${name} in for replication from here`,
      `a line in pg_hba.conf, then SELECT pg_reload_conf(): hostssl replication ${name} <this machine>/32 scram-sha-256`,
    );
  }
}

async function serverPrograms(major: number): Promise<string | Impossible> {
  try {
    return await embeddedBinaries(major as ServerVersion);
  } catch (error) {
    if (!(error instanceof SafemigrateError)) throw error;
    return impossible(error.message, error.hint);
  }
}

async function findPlace({ options }: CloneContext, bytes: number): Promise<string | Impossible> {
  const wished = options.folder ?? tmpdir();
  try {
    const place = await realpath(wished);
    if (process.getuid?.() === 0 && !(await reachableByOthers(place)))
      return impossible(
        `PostgreSQL does not run as root, and other users cannot enter ${place}`,
        'name another folder with --clone-dir, or run as an ordinary user',
      );
    const { bavail, blocks, bsize } = await statfs(place);
    const [free, floor] = [bavail * bsize, floorOf(blocks * bsize)];
    if (free - bytes >= floor) return place;
    return impossible(
      `the cluster takes ${formatBytes(bytes)}, and ${formatBytes(free)} are free in ${place}, of which ` +
        `${formatBytes(floor)} must remain`,
      'free some space there, or name a folder on another disk with --clone-dir',
    );
  } catch (error) {
    return impossible(
      `${wished} cannot be used: ${messageOf(error)}`,
      'name another folder with --clone-dir',
    );
  }
}

function impossible(reason: string, enable?: string): Impossible {
  return { possible: false, reason, ...(enable === undefined ? {} : { enable }) };
}

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
