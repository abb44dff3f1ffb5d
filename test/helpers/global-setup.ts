import { randomBytes } from 'node:crypto';
import { mkdir, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import type { TestProject } from 'vitest/node';
import { embeddedBinaries, type ServerVersion } from '../../src/local-server/binaries.ts';
import type { Server } from '../../src/local-server/embedded.ts';
import { guardFolder } from '../../src/local-server/folder-cleaner.ts';
import { usableInstallation } from '../../src/local-server/installation.ts';
import { literal } from '../../src/postgres/sql/quote.ts';
import { testBinaries, upgradableInstallation } from './binaries.ts';
import { withClient } from './client.ts';
import { startCopied } from './data-directory.ts';
import { removeStaleFileSystems } from './file-system.ts';
import { buildIfStale } from './fresh-build.ts';
import { debianPrograms } from './placed-server.ts';
import { requireAll } from './requirements.ts';
import { unpackedPrograms } from './unpacked-programs.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Superuser URLs by major version; a version that has no build for this platform is missing. */
    servers: Record<number, string>;
    /** The folders of their programs, which every user may run. */
    programs: Record<number, string>;
    /** Takes what initdb made in this run, for copyOrMake(). */
    store: string;
  }
}

const ALL_VERSIONS: ServerVersion[] = [14, 15, 16, 17, 18, 19];

/** Those that SAFEMIGRATE_TEST_VERSIONS names (`14 18`), which a project sets for its tests. */
function versionsOf(project: TestProject): ServerVersion[] {
  const wanted = project.config.env?.SAFEMIGRATE_TEST_VERSIONS ?? process.env.SAFEMIGRATE_TEST_VERSIONS;
  return ALL_VERSIONS.filter((version) => wanted?.split(' ').includes(String(version)) ?? true);
}

/** The version whose programs the tests of 18 are given, to run the suites on a newer one. */
const IN_PLACE_OF_18 = Number(process.env.SAFEMIGRATE_TEST_IN_PLACE_OF_18 ?? 18) as ServerVersion;

const SETTINGS = {
  shared_buffers: '32MB',
  max_connections: '200',
  max_prepared_transactions: '20',
  wal_level: 'logical',
  autovacuum: 'off',
};

/** Builds what the tests run, and starts every server once for the whole run; nothing of safemigrate's may be in them when it ends. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  buildIfStale();
  await removeStaleFileSystems();
  const store = path.join(tmpdir(), `safemigrate-test-run-${randomBytes(5).toString('hex')}`);
  const guard = guardFolder(store);
  await mkdir(store, { mode: 0o755 });
  const started = await Promise.allSettled(versionsOf(project).map((version) => start(version, store)));
  const all = started.flatMap((result) => (result.status === 'fulfilled' ? (result.value ?? []) : []));
  const servers = all.map(({ server }) => server);
  const stopAll = () => Promise.all(servers.map((server) => server.stop())).finally(() => guard.dismiss());
  const failed = started.find((result) => result.status === 'rejected');
  if (failed) {
    await stopAll();
    throw failed.reason;
  }
  project.provide('servers', Object.fromEntries(servers.map(({ version, url }) => [version, url])));
  project.provide(
    'programs',
    Object.fromEntries(all.map(({ server, programs }) => [server.version, programs])),
  );
  project.provide('store', store);
  return async () => {
    const left = (await Promise.all(servers.map(leftOn))).flat();
    await stopAll();
    await endWatchdogs();
    if (left.length === 0) return;
    // Vitest prints what a teardown throws, and then ends with 0 all the same.
    process.exitCode = 1;
    throw new Error(`left behind after all tests:\n  ${left.join('\n  ')}`);
  };
}

async function start(
  version: ServerVersion,
  store: string,
): Promise<{ server: Server; programs: string } | undefined> {
  const installation = path.join(store, `postgresql-${version}`);
  const found = await programsFor(version === 18 ? IN_PLACE_OF_18 : version, installation);
  if ('missing' in found) {
    if (requireAll) throw new Error(found.missing);
    console.warn(`SKIPPED: ${found.missing}`);
    return undefined;
  }
  const usable = await usableInstallation(found.programs, installation, process.getuid?.() === 0);
  const programs = version === 15 ? await upgradable(usable, store) : usable;
  return { server: await startCopied(store, { version, binaries: programs, settings: SETTINGS }), programs };
}

async function programsFor(version: ServerVersion, installation: string) {
  if (version === 18) return { programs: await embeddedBinaries(18) };
  if (version === 19) return unpackedPrograms(19, installation);
  const programs = testBinaries(version);
  if (programs !== undefined) return { programs };
  return { missing: `PostgreSQL ${version} has no build for ${process.platform}-${process.arch}` };
}

async function upgradable(programs: string, store: string): Promise<string> {
  const debian = await debianPrograms(15);
  if (debian.obstacle !== null) return programs;
  return upgradableInstallation(programs, debian.programs, path.join(store, 'postgresql-15-upgradable'));
}

/** Ends the watchdogs of ways back whose server is gone: they would look for it until a day after their time. */
async function endWatchdogs(): Promise<void> {
  for (const pid of (await readdir('/proc').catch((): string[] => [])).filter((name) => /^\d+$/.test(name))) {
    const words = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
    if (!words.includes(process.cwd()) || !words.includes('swap/reopen-agent-process')) continue;
    try {
      process.kill(Number(pid), 'SIGTERM');
    } catch {
      // It has ended meanwhile.
    }
  }
}

const LEFT = `
SELECT 'database ' || datname AS what FROM pg_database WHERE datname ~ '_(rehearsal|probe)_[0-9a-z]{13}$'
UNION ALL
SELECT 'session ' || application_name || ' in ' || coalesce(datname, '-')
  FROM pg_stat_activity WHERE application_name LIKE ${literal('safemigrate%')}
UNION ALL
SELECT 'replication slot ' || slot_name FROM pg_replication_slots
UNION ALL
SELECT 'prepared transaction ' || gid FROM pg_prepared_xacts`;

async function leftOn(server: Server): Promise<string[]> {
  const rows = await withClient(
    server.url,
    async (client) => (await client.query<{ what: string }>(LEFT)).rows,
  );
  return rows.map(({ what }) => `PostgreSQL ${server.version}: ${what}`);
}
