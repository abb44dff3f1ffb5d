import { chown, readdir, readlink, realpath, rm, stat, truncate, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../../errors.ts';
import type { Owner } from '../../ownership/folder-mark.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { waitUntil } from '../../postgres/session-helpers.ts';

/** The original's configuration and state files, which the copy must not use. Of a link, the link itself is removed. */
const FOREIGN = [
  'postmaster.pid',
  'postmaster.opts',
  'standby.signal',
  'recovery.signal',
  'recovery.conf',
  'postgresql.conf',
  'postgresql.auto.conf',
  'pg_hba.conf',
  'pg_ident.conf',
  'current_logfiles',
  'server.crt',
  'server.key',
  'root.crt',
  'root.crl',
];

/**
 * Settings during recovery only. Recovery opens and syncs each file once: with 43,000 files that took 5.6 s, and 0.13 s with fsync
 * off (PostgreSQL 18, XFS). left-out-databases.ts reads its log, so the messages must be in English.
 */
const WHILE_RECOVERING = "fsync = off\nlc_messages = 'C'\n";

const HBA = '# Only the socket, in a folder that no other user may enter.\nlocal all all trust\n';

export async function hasInPlaceTablespaces(folder: string): Promise<boolean> {
  const entries = await readdir(path.join(folder, 'data', 'pg_tblspc'), { withFileTypes: true });
  return entries.some((entry) => entry.isDirectory());
}

/**
 * Prepares a copied data directory so that a second server can be started on it without danger to the original.
 * @param configuration the text of its postgresql.conf.
 * @param fromArchive whether it recovers from an archive.
 * @throws SafemigrateError `CLONE` for a symbolic link that points out of the clone.
 */
export async function sanitizeDataDirectory(
  folder: string,
  configuration: string,
  owner: Owner,
  fromArchive = false,
): Promise<void> {
  const data = path.join(folder, 'data');
  await Promise.all(FOREIGN.map((name) => rm(path.join(data, name), { recursive: true, force: true })));
  await refuseWaysOut(folder);
  // A slot would retain WAL for a consumer that never connects.
  const slots = path.join(data, 'pg_replslot');
  for (const name of await readdir(slots)) await rm(path.join(slots, name), { recursive: true });
  const write = async (place: string, text: string) => {
    await writeFile(place, text, { mode: 0o600, flag: 'wx' });
    if (process.getuid?.() === 0) await chown(place, owner.uid, owner.gid);
  };
  await write(path.join(data, 'postgresql.conf'), configuration);
  await write(path.join(data, 'postgresql.auto.conf'), WHILE_RECOVERING);
  if (fromArchive) await write(path.join(data, 'recovery.signal'), '');
  await write(path.join(folder, 'pg_hba.conf'), HBA);
  await write(path.join(folder, 'pg_ident.conf'), '');
}

/**
 * Checks the links of the data directory and of what they lead to: through one that points out of the folder, the second server would
 * write to the first one's files.
 */
async function refuseWaysOut(folder: string): Promise<void> {
  const root = await realpath(folder);
  const visited = new Set<string>();
  const visit = async (at: string): Promise<void> => {
    if (visited.has(at)) return;
    visited.add(at);
    const entries = await readdir(at, { withFileTypes: true });
    for (const entry of entries) {
      const place = path.join(at, entry.name);
      if (entry.isDirectory()) await visit(place);
      else if (entry.isSymbolicLink()) await enter(place);
    }
  };
  const enter = async (link: string): Promise<void> => {
    const end = await refuseWayOut(link, root);
    if ((await stat(end).catch(() => undefined))?.isDirectory()) await visit(end);
  };
  await enter(path.join(root, 'data'));
}

/** Returns where it leads to. */
async function refuseWayOut(place: string, root: string): Promise<string> {
  const end = await realpath(place).catch(async () =>
    path.resolve(path.dirname(place), await readlink(place)),
  );
  if (end !== root && !end.startsWith(`${root}/`)) throw wayOut(place, end);
  return end;
}

function wayOut(place: string, end: string): SafemigrateError {
  return new SafemigrateError(
    'CLONE',
    `The copy of the cluster was not started: ${place} points to ${end}.`,
    {
      hint: 'A server on it could write into files of the original. The target was not touched by it.',
    },
  );
}

const RELOAD_MS = 10_000;
const POLL_MS = 5;

/**
 * Replaces the settings for recovery by the target's, before anything is measured.
 * @param fsync the target's value.
 * @throws SafemigrateError `CLONE` if the server does not reload its configuration.
 */
export async function endRecoverySettings(session: Session, folder: string, fsync: string): Promise<void> {
  // ALTER SYSTEM needs the file to exist.
  await truncate(path.join(folder, 'data', 'postgresql.auto.conf'));
  await session.query('SELECT pg_reload_conf()');
  // The postmaster takes the new value itself before it passes the signal on to its sessions.
  const hasValue = async () => (await session.query<{ fsync: string }>('SHOW fsync'))[0]?.fsync === fsync;
  if (!(await waitUntil(hasValue, { everyMs: POLL_MS, timeoutMs: RELOAD_MS })))
    throw new SafemigrateError('CLONE', "The server of the clone did not take the target's value of fsync.");
}
