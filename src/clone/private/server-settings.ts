import { access } from 'node:fs/promises';
import path from 'node:path';
import { formatBytes } from '../../format.ts';
import type { Caveat } from '../../model/report.ts';
import { CLONE_PORT } from '../../ownership/folder-records.ts';
import type { Original } from './original.ts';

/**
 * Settings of the original that its copy does not get: addresses, files, replication, logging and reserved memory. All others
 * affect plans, locks, WAL or results.
 */
const LEFT_OUT = new RegExp(
  `^(${[
    'listen_addresses|port|unix_socket_.*|bonjour.*|authentication_timeout|ssl|ssl_.*|krb_.*|gss_.*|oauth_.*',
    'data_directory|config_file|hba_file|ident_file|external_pid_file|event_source|cluster_name',
    'stats_temp_directory|log_.*|logging_collector|syslog_.*',
    'archive_.*|restore_command|recovery_.*|promote_trigger_file|primary_.*|hot_standby.*',
    'wal_keep_size|wal_receiver_.*|wal_retrieve_retry_interval|summarize_wal|wal_summary_.*',
    'synchronous_standby_names|sync_replication_slots|synchronized_standby_slots',
    'max_logical_replication_workers|shared_preload_libraries|max_worker_processes',
    'shared_buffers|huge_page.*|min_dynamic_shared_memory',
  ].join('|')})$`,
);

const MAX_SHARED_BUFFERS = 128 * 2 ** 20;

/** Libraries whose background workers, if any, affect nothing outside their own server. */
const HARMLESS = new Set([
  'auth_delay',
  'auto_explain',
  'credcheck',
  'hypopg',
  'passwordcheck',
  'pg_hint_plan',
  'pg_prewarm',
  'pg_qualstats',
  'pg_stat_kcache',
  'pg_stat_monitor',
  'pg_stat_statements',
  'pg_wait_sampling',
  'pgaudit',
  'plpgsql',
  'plpgsql_check',
  'plprofiler',
  'safeupdate',
  'set_user',
]);

/** Settings by the version that introduced them: an older server would not start with them. */
const SINCE: Readonly<Record<string, number>> = {
  archive_library: 15,
  sync_replication_slots: 17,
  synchronized_standby_slots: 17,
  summarize_wal: 17,
};

export type ServerSettings = Awaited<ReturnType<typeof serverSettings>>;

export interface SettingsPlace {
  readonly folder: string;
  readonly socketFolder: string;
  readonly programs: string;
  readonly run: string;
  readonly versionNum: number;
}

export async function serverSettings(original: Original, place: SettingsPlace) {
  const { settings, sharedBuffersBytes } = original;
  const libraries = await preloadedLibraries(settings, place.programs);
  const caveats: Caveat[] = [...libraries.caveats];
  const differs = (reason: string) => void caveats.push({ path: 'statements', kind: 'estimate', reason });
  const taken = [...settings].filter(([name]) => !LEFT_OUT.test(name));
  if (libraries.loaded.length > 0)
    taken.push(['shared_preload_libraries', libraries.loaded.map((name) => `"${name}"`).join(', ')]);
  const workers = libraries.loaded.every((name) => HARMLESS.has(baseName(name)));
  const ownWorkers = settings.get('max_worker_processes');
  if (workers && ownWorkers !== undefined) taken.push(['max_worker_processes', ownWorkers]);
  const jobs = libraries.loaded.filter((name) => !HARMLESS.has(baseName(name)));
  if (!workers)
    differs(
      `${jobs.join(', ')} could start jobs by itself, so that the clone runs no background workers: ` +
        'no query and no index is built in parallel',
    );
  if (sharedBuffersBytes > MAX_SHARED_BUFFERS)
    differs(
      `the clone's shared_buffers are ${formatBytes(MAX_SHARED_BUFFERS)}, the target's ${formatBytes(sharedBuffersBytes)}`,
    );
  if (original.partly)
    differs('the role may not read all settings of the target: preloaded libraries are among those unknown');
  return {
    /** Text of postgresql.conf: the original's settings. */
    file: taken.map(([name, value]) => `${name} = ${quoted(value)}\n`).join(''),
    /** Settings for the command line, where nothing can change them: they keep the copy from acting as the original. */
    fixed: knownTo(place.versionNum, {
      ...cutOff(place),
      shared_buffers: `${Math.floor(Math.min(sharedBuffersBytes, MAX_SHARED_BUFFERS) / 1024)}kB`,
      ...(workers ? {} : { max_worker_processes: '0' }),
    }),
    /** Libraries that the original preloads, and that are not installed here. */
    missingLibraries: libraries.missing,
    caveats,
  };
}

/** Settings that depend on what was copied. */
export function copySettings(copy: {
  /** There are tablespaces created with allow_in_place_tablespaces. */
  readonly inPlaceTablespaces: boolean;
  /** Databases were left out, and WAL may refer to their pages. */
  readonly ignoreInvalidPages: boolean;
}): Record<string, string> {
  return {
    // Without this setting recovery treats a tablespace that is not a link as damage.
    ...(copy.inPlaceTablespaces ? { allow_in_place_tablespaces: 'on' } : {}),
    ...(copy.ignoreInvalidPages ? { ignore_invalid_pages: 'on' } : {}),
  };
}

/** Settings that name the folders. */
export function placeSettings({
  folder,
  socketFolder,
}: Pick<SettingsPlace, 'folder' | 'socketFolder'>): Record<string, string> {
  return {
    data_directory: path.join(folder, 'data'),
    hba_file: path.join(folder, 'pg_hba.conf'),
    ident_file: path.join(folder, 'pg_ident.conf'),
    unix_socket_directories: `"${socketFolder.replaceAll('"', '""')}"`,
  };
}

function cutOff({ run, ...place }: SettingsPlace): Record<string, string> {
  return {
    ...placeSettings(place),
    external_pid_file: '',
    listen_addresses: '',
    port: String(CLONE_PORT),
    unix_socket_permissions: '0700',
    ssl: 'off',
    archive_mode: 'off',
    archive_command: '',
    archive_library: '',
    restore_command: '',
    primary_conninfo: '',
    primary_slot_name: '',
    synchronous_standby_names: '',
    synchronized_standby_slots: '',
    sync_replication_slots: 'off',
    summarize_wal: 'off',
    max_logical_replication_workers: '0',
    huge_pages: 'off',
    logging_collector: 'off',
    log_destination: 'stderr',
    cluster_name: `safemigrate ${run}`,
  };
}

function knownTo(versionNum: number, settings: Record<string, string>): Record<string, string> {
  const major = Math.floor(versionNum / 10_000);
  return Object.fromEntries(Object.entries(settings).filter(([name]) => (SINCE[name] ?? 0) <= major));
}

/** Quotes a value for postgresql.conf, where backslashes are escapes, too. */
function quoted(value: string): string {
  return `'${value.replaceAll('\\', '\\\\').replaceAll("'", "''")}'`;
}

/** Keeps the libraries that this machine has; a server without one of them would not start. */
async function preloadedLibraries(
  settings: ReadonlyMap<string, string>,
  programs: string,
): Promise<{ loaded: string[]; missing: string[]; caveats: Caveat[] }> {
  const wanted = listed(settings.get('shared_preload_libraries') ?? '');
  const folders = await libraryFolders(settings.get('dynamic_library_path') ?? '$libdir', programs);
  // If the folder of the libraries is not known, none can be called missing.
  if (wanted.length === 0 || folders === undefined) return { loaded: wanted, missing: [], caveats: [] };
  const loaded: string[] = [];
  const missing: string[] = [];
  for (const name of wanted) {
    ((await hasLibrary(name, folders)) ? loaded : missing).push(name);
  }
  const caveats = missing.map((name): Caveat => {
    const reason = `the library ${name}, which the target preloads, is not installed here`;
    return { path: 'statements', kind: 'estimate', reason };
  });
  return { loaded, missing, caveats };
}

/** Finds the library folder. @returns undefined if `$libdir`, which is compiled into the server, is not found. */
async function libraryFolders(searchPath: string, programs: string): Promise<string[] | undefined> {
  const root = path.dirname(programs);
  for (const candidate of ['lib/postgresql', 'lib', 'lib64/pgsql', 'lib64']) {
    const own = path.join(root, candidate);
    if (await hasLibrary('plpgsql', [own]))
      return searchPath
        .split(':')
        .map((folder) => folder.replace('$libdir', own))
        .filter((folder) => folder !== '');
  }
  return undefined;
}

async function hasLibrary(name: string, folders: readonly string[]): Promise<boolean> {
  const plain = name.replace(/^\$libdir\//, '');
  const places = plain.includes('/') ? [plain] : folders.map((folder) => path.join(folder, plain));
  for (const place of places) {
    for (const ending of ['', '.so', '.dylib']) {
      if (
        await access(place + ending).then(
          () => true,
          () => false,
        )
      )
        return true;
    }
  }
  return false;
}

function listed(text: string): string[] {
  return [...text.matchAll(/"((?:[^"]|"")*)"|[^,\s]+/g)].map(
    ([word, inner]) => inner?.replaceAll('""', '"') ?? word,
  );
}

function baseName(library: string): string {
  return path.basename(library).replace(/\.(so|dylib)$/, '');
}
