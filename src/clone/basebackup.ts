import { chmod, chown, realpath } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { codeOf, messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import { formatBytes, formatDuration } from '../format.ts';
import { findClientPrograms } from '../local-server/client-programs.ts';
import { makeWorkFolder, runGuarded } from '../local-server/folder-cleaner.ts';
import { reachableByOthers, usableInstallation } from '../local-server/installation.ts';
import { nameTarget, type Owner } from '../ownership/folder-records.ts';
import { whyUnusable } from '../ownership/state-files.ts';
import { clientEnvironment } from '../postgres/connection/client-environment.ts';
import { applicationName, tryReplication } from '../postgres/connection/connect.ts';
import { identifier } from '../postgres/sql/quote.ts';
import type { Scope } from '../scope.ts';
import { refuseWithoutSpace, spaceIn } from './cluster/choose-folder.ts';
import type { Assessment, Clone, CloneContext, CloneMethod, Possible } from './method.ts';
import { CopyObstacle, orImpossible, refusing } from './obstacle.ts';
import { type FilledFolder, findServerPrograms, UNPRIVILEGED } from './private/private-server.ts';
import { assessContainment, startPrivateCluster } from './private-cluster.ts';

/** Clones the whole cluster over a replication connection, and starts the copy here as a private server. */
export const basebackup: CloneMethod = {
  id: 'basebackup',
  clonesOthers: true,
  assess: (context) => orImpossible(() => assess(context)),
  create,
  describe: async (context) => {
    const found = await stillPossible(context);
    return [`-- run: ${receivingWords(context, found, found.folder).join(' ')}`];
  },
};

/** Time for the checkpoint, the end of the backup, the start of the second server and its recovery. */
const FIXED_MS = 1_500;
/** Rate of a fast network and a local disk; slower ones are common. */
const BYTES_PER_MS = 100_000;
/** Time per file: files are created and read one by one. */
const PER_FILE_MS = 0.05;

async function assess(context: CloneContext): Promise<Assessment> {
  const found = await probe(context);
  const contained = await assessContainment(context, found);
  if ('possible' in contained) return contained;
  const { bytes, client } = found;
  // The number of files of the cluster is not known: the target's is the lower limit.
  const { files } = context.target.database;
  const readyMs = Math.round(FIXED_MS + PER_FILE_MS * files + bytes / BYTES_PER_MS);
  return {
    possible: true,
    strategy: 'stream',
    readyMs,
    stallMs: 0,
    bytes,
    endsSessions: false,
    isolation: 'own-cluster',
    ...contained,
    reason:
      `the whole cluster, ${formatBytes(bytes)}, copied here by pg_basebackup ${client.version}: estimated ` +
      formatDuration(readyMs),
  };
}

async function create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone> {
  const found = await stillPossible(context);
  const { folder, owner, programs } = found;
  const fill = (place: string) => fillByStream(context, found, place);
  const cluster = { method: 'basebackup', assessment, folder, owner, programs, fill } as const;
  return startPrivateCluster(context, cluster, scope);
}

/** Probes again, since conditions may have changed. @throws SafemigrateError `CLONE` */
function stillPossible(context: CloneContext): Promise<BackupServer> {
  return refusing('No base backup can be taken', () => probe(context));
}

async function fillByStream(
  context: CloneContext,
  found: BackupServer,
  folder: string,
): Promise<FilledFolder> {
  const { binaries, owner } = found;
  const asRoot = process.getuid?.() === 0;
  if (asRoot) await chown(folder, owner.uid, owner.gid);
  await usableInstallation(binaries, path.join(folder, 'installation'), asRoot);
  await receive(context, found, folder);
  await chmod(path.join(folder, 'data'), 0o700);
  const { checkpoint } = context.options;
  const reasons = [
    "the clone's server runs on this machine: durations may differ, since its hardware and load differ from the target's",
    ...(context.source ? ['it was copied from a standby, which may lag behind'] : []),
  ];
  return {
    touched: context.source
      ? []
      : [
          `pg_basebackup: a checkpoint (${checkpoint}), all files read (${formatBytes(found.bytes)}), a temporary replication ` +
            'slot, a switch of the WAL segment, and a backup history file',
        ],
    caveats: reasons.map((reason) => ({ path: 'clone', kind: 'estimate', reason })),
    databases: null,
  };
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

/** WAL senders: one for the files, one for the WAL written during the copy. */
const SENDERS = 2;

type BackupServer = Awaited<ReturnType<typeof probe>>;

/**
 * Finds what a base backup needs, without changing anything. `bytes` is the total size of the databases whose size the role may
 * read.
 * @throws CopyObstacle
 */
async function probe(context: CloneContext) {
  const { control, target, rehearsal, run } = context;
  if (rehearsal)
    throw new CopyObstacle('--clone-to names another server to make the clone on', 'leave --clone-to out');
  const [facts] = await control.query<{
    replicates: boolean;
    wal_level: string;
    senders: number;
    bytes: string;
  }>(FACTS);
  if (!facts?.replicates) {
    const role = target.role.name;
    throw new CopyObstacle(
      `the role ${role} may not replicate`,
      `ALTER ROLE ${identifier(role)} REPLICATION;`,
    );
  }
  if (facts.wal_level === 'minimal' || facts.senders < SENDERS)
    throw new CopyObstacle(
      `the server is set up for no replication (wal_level = ${facts.wal_level}, max_wal_senders = ${facts.senders})`,
      "wal_level = replica and max_wal_senders = 10, PostgreSQL's defaults; they need a restart",
    );
  const { versionNum } = target.server;
  const atLeast = Math.floor(versionNum / 10_000);
  const client = await findClientPrograms({ programs: ['pg_basebackup'], atLeast });
  if ('reason' in client) throw new CopyObstacle(client.reason, client.enable);
  const bytes = Number(facts.bytes);
  const place = await findPlace(context, bytes);
  const folder = path.join(place, `safemigrate_${run}`);
  const found = await findServerPrograms(versionNum, folder);
  await refuseNotLetIn(context);
  const owner: Owner =
    process.getuid?.() === 0 ? UNPRIVILEGED : { uid: process.getuid?.() ?? 0, gid: process.getgid?.() ?? 0 };
  const tablespaces = await control.query<{ oid: string; location: string }>(TABLESPACES);
  return { ...found, client, folder, bytes, owner, tablespaces };
}

const NOT_LET_IN = '28000';

/**
 * Tries a replication connection: only superusers can read pg_hba.conf, and only the server can match it.
 * @throws CopyObstacle
 */
async function refuseNotLetIn(context: CloneContext): Promise<void> {
  const { source, target, run, signal } = context;
  try {
    await tryReplication((source ?? target).settings, { run, signal, purpose: 'inspect' });
  } catch (error) {
    if (!(error instanceof SafemigrateError) || error.code !== 'CONNECTION') throw error;
    if (sqlstateOf(error.cause) !== NOT_LET_IN) throw new CopyObstacle(error.message, error.hint);
    const name = identifier((source ?? target).settings.user);
    throw new CopyObstacle(
      `pg_hba.conf of the server does not let ${name} in for replication from here`,
      `a line in pg_hba.conf, then SELECT pg_reload_conf(): hostssl replication ${name} <this machine>/32 scram-sha-256`,
    );
  }
}

const NAME_ANOTHER = 'set TMPDIR to a folder of yours, or name one with --clone-dir';

async function findPlace({ options }: CloneContext, bytes: number): Promise<string> {
  const wished = options.folder ?? tmpdir();
  try {
    const parent = await realpath(wished);
    if (process.getuid?.() === 0 && !(await reachableByOthers(parent)))
      throw new CopyObstacle(
        `PostgreSQL does not run as root, and other users cannot enter ${parent}`,
        `${NAME_ANOTHER}, or run as an ordinary user`,
      );
    const why = await whyUnusable(parent);
    if (why !== undefined)
      throw new CopyObstacle(`the folder for the clone cannot be used: ${why}`, NAME_ANOTHER);
    refuseWithoutSpace({ parent, ...(await spaceIn(parent)) }, bytes, 'the cluster');
    return parent;
  } catch (error) {
    if (codeOf(error) === '') throw error;
    throw new CopyObstacle(`the folder for the clone cannot be used: ${messageOf(error)}`, NAME_ANOTHER);
  }
}

/** Returns the command that creates `data` and `tablespaces/<oid>` in the folder, with the WAL that recovery needs. */
function receivingWords(
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

const PROGRESS = `
SELECT b.backup_streamed AS done, b.backup_total AS "of"
  FROM pg_stat_progress_basebackup b JOIN pg_stat_activity a USING (pid)
 WHERE a.application_name = $1 AND b.backup_total > 0`;

/**
 * Runs pg_basebackup, as the user who will own the files, in a process group that ends with us, however we end.
 * @throws SafemigrateError `CLONE` with its output; the signal's reason.
 */
async function receive(context: CloneContext, found: BackupServer, folder: string): Promise<void> {
  const { signal, run, control, emit, source, target } = context;
  const named = applicationName({ run, purpose: 'basebackup' });
  const launching = {
    environment: clientEnvironment((source ?? target).settings, { applicationName: named }),
    uid: process.getuid?.() === 0 ? found.owner.uid : undefined,
  };
  const place = await makeWorkFolder(path.dirname(folder), 'log', nameTarget(target));
  const words = receivingWords(context, found, folder);
  const said = await runGuarded(place, words, launching, signal, async () => {
    // The role may not see it.
    const asked = control.query<{ done: string; of: string }>(PROGRESS, [named]);
    for (const { done, of } of await asked.catch(() => []))
      emit({ type: 'progress', phase: 'clone', done: Number(done), of: Number(of), unit: 'bytes' });
  });
  if (said === null) return;
  throw new SafemigrateError('CLONE', `pg_basebackup failed:\n${said}`, {
    hint:
      'The target was not changed. Try again: two WAL senders must be free, pg_hba.conf must let the role in for the database ' +
      '"replication", and the server must not be restarted, promoted or replaced during the copy.',
  });
}
