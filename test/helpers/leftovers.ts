import { chmod, mkdir, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll } from 'vitest';
import { registryFolder } from '../../src/ownership/folder-records.ts';
import { NAME_PATTERN, parseOwnedName } from '../../src/ownership/mark.ts';
import { isPutAside } from '../../src/ownership/put-aside.ts';
import { withClient } from './client.ts';
import { made, type TemporaryDatabase } from './database.ts';
import { serverUrl, stopOwnServers } from './servers.ts';

/**
 * After each test file: fails on clones and probes of this file's databases, on safemigrate's sessions in those, on
 * processes that were started from here and still live, and on clones in folders. Other files run at the same time, so
 * only what can be told to be of this file counts; the end of the whole run looks once more, at everything.
 */

/** Inherited by every process started from this test file, however far removed. */
const OWNER = 'PROCESS_OF_TEST_FILE';
process.env[OWNER] = `${process.pid}-${Date.now()}`;

/** Clones in folders are recorded in the user's state folder: each test file is a user of its own. */
const STATE = path.join(tmpdir(), `safemigrate-state-${process.env[OWNER]}`);
process.env.XDG_STATE_HOME = STATE;

/**
 * Where everything is run that is told no other folder. A rehearsal looks for its statements in the files of its folder: in this
 * repository or in the folder for temporary files, which is full of servers, that takes a third of its processor time.
 */
const EMPTY = path.join(tmpdir(), `safemigrate-empty-${process.env[OWNER]}`);
await mkdir(EMPTY);
// Of other users as well.
await chmod(EMPTY, 0o1777);
process.chdir(EMPTY);

const PATIENCE_MS = 30_000;

afterAll(async () => {
  const left = await patiently(onServers);
  for (const database of made.values()) await database.drop();
  // They have processes of their own, which must be gone with them.
  await stopOwnServers();
  left.push(...(await patiently(processes)), ...(await patiently(folders)));
  process.chdir('/');
  for (const folder of [STATE, EMPTY]) await rm(folder, { recursive: true, force: true });
  if (left.length > 0) throw new Error(`left behind by this test file:\n  ${left.join('\n  ')}`);
});

/** A backend ends, and a process is collected, a moment after its client was told so. */
async function patiently(search: () => Promise<string[]>): Promise<string[]> {
  const deadline = performance.now() + PATIENCE_MS;
  let left = await search();
  while (left.length > 0 && performance.now() < deadline) {
    await delay(50);
    left = await search();
  }
  return left;
}

async function onServers(): Promise<string[]> {
  const databases = [...made.values()];
  const versions = [...new Set(databases.map(({ version }) => version))];
  const found = await Promise.all(
    versions.map((version) =>
      onServer(
        version,
        databases.filter((database) => database.version === version),
      ),
    ),
  );
  return found.flat();
}

async function onServer(
  version: TemporaryDatabase['version'],
  databases: TemporaryDatabase[],
): Promise<string[]> {
  return withClient(serverUrl(version), async (client) => {
    const all = await client.query<{ datname: string }>('SELECT datname FROM pg_database');
    const ours = all.rows.map(({ datname }) => datname).filter((name) => isDerived(name, databases));
    const sessions = await client.query<{ name: string; datname: string }>(
      `SELECT application_name AS name, datname FROM pg_stat_activity
        WHERE application_name LIKE 'safemigrate%' AND datname = ANY ($1)`,
      [[...ours, ...databases.map(({ name }) => name)]],
    );
    return [
      ...ours.map((name) => `PostgreSQL ${version}: database ${name}`),
      ...sessions.rows.map(({ name, datname }) => `PostgreSQL ${version}: session ${name} in ${datname}`),
    ];
  });
}

/** What a swap or a rollback puts aside is what it is asked to leave; a test drops it itself. */
function isDerived(name: string, databases: TemporaryDatabase[]): boolean {
  const owned = parseOwnedName(name);
  if (!owned || isPutAside(owned.role)) return false;
  const stem = name.replace(new RegExp(NAME_PATTERN), '');
  return stem !== '' && databases.some((database) => database.name.startsWith(stem));
}

async function folders(): Promise<string[]> {
  const entries = await readdir(registryFolder()).catch((): string[] => []);
  return entries.map((name) => `entry of a clone: ${name}`);
}

/** Only on Linux, where a process's environment can be read. */
async function processes(): Promise<string[]> {
  const tag = `${OWNER}=${process.env[OWNER]}`;
  const found: string[] = [];
  for (const pid of await readdir('/proc').catch((): string[] => [])) {
    if (!/^\d+$/.test(pid) || Number(pid) === process.pid) continue;
    try {
      const environment = await readFile(`/proc/${pid}/environ`, 'utf8');
      if (!environment.split('\0').includes(tag)) continue;
      const command = (await readFile(`/proc/${pid}/cmdline`, 'utf8')).replaceAll('\0', ' ');
      found.push(`process ${pid}: ${command.slice(0, 200)}`);
    } catch {
      // It ended meanwhile, or belongs to somebody else.
    }
  }
  return found;
}
