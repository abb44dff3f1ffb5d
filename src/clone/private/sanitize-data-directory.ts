import { chownSync, readdirSync, readlinkSync, realpathSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { readdir, truncate } from 'node:fs/promises';
import path from 'node:path';
import { SafemigrateError } from '../../errors.ts';
import type { Owner } from '../../ownership/folder-records.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { waitUntil } from '../../postgres/session-helpers.ts';

/** The original's configuration and state files, which the copy must not use. Of a link, the link itself is removed. */
const FOREIGN = new Set([
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
]);

/**
 * Settings during recovery only. Recovery opens and syncs each file once: with 43,000 files that took 5.6 s, and 0.13 s with fsync
 * off (PostgreSQL 18, XFS). post-start.ts reads its log, so the messages must be in English.
 */
const WHILE_RECOVERING = "fsync = off\nlc_messages = 'C'\n";

const HBA = '# Only the socket, in a folder that no other user may enter.\nlocal all all trust\n';

export async function hasInPlaceTablespaces(folder: string): Promise<boolean> {
  const entries = await readdir(path.join(folder, 'data', 'pg_tblspc'), { withFileTypes: true });
  return entries.some((entry) => entry.isDirectory());
}

/**
 * Prepares a copied data directory so that a second server can be started on it without danger to the original. All its calls are
 * short ones, and synchronous: together 2 ms, through the thread pool 10.
 * @param configuration the text of its postgresql.conf.
 * @param fromArchive whether it recovers from an archive.
 * @throws SafemigrateError `CLONE` for a symbolic link that points out of the clone.
 */
export function sanitizeDataDirectory(
  folder: string,
  configuration: string,
  owner: Owner,
  fromArchive = false,
): void {
  const data = path.join(folder, 'data');
  for (const name of readdirSync(data))
    if (FOREIGN.has(name)) rmSync(path.join(data, name), { recursive: true, force: true });
  refuseWaysOut(folder);
  // A slot would retain WAL for a consumer that never connects.
  const slots = path.join(data, 'pg_replslot');
  for (const name of readdirSync(slots)) rmSync(path.join(slots, name), { recursive: true });
  const write = (place: string, text: string) => {
    writeFileSync(place, text, { mode: 0o600, flag: 'wx' });
    if (process.getuid?.() === 0) chownSync(place, owner.uid, owner.gid);
  };
  write(path.join(data, 'postgresql.conf'), configuration);
  write(path.join(data, 'postgresql.auto.conf'), WHILE_RECOVERING);
  if (fromArchive) write(path.join(data, 'recovery.signal'), '');
  write(path.join(folder, 'pg_hba.conf'), HBA);
  write(path.join(folder, 'pg_ident.conf'), '');
}

/**
 * Checks the links of the data directory and of what they lead to: through one that points out of the folder, the second server would
 * write to the first one's files.
 */
function refuseWaysOut(folder: string): void {
  const root = realpathSync(folder);
  const visited = new Set<string>();
  const visit = (at: string): void => {
    if (visited.has(at)) return;
    visited.add(at);
    for (const entry of readdirSync(at, { withFileTypes: true })) {
      const place = `${at}/${entry.name}`;
      if (entry.isDirectory()) visit(place);
      else if (entry.isSymbolicLink()) enter(place);
    }
  };
  const enter = (link: string): void => {
    const end = refuseWayOut(link, root);
    if (isFolder(end)) visit(end);
  };
  enter(path.join(root, 'data'));
}

/** Returns where it leads to. */
function refuseWayOut(place: string, root: string): string {
  const end = endOf(place);
  if (end !== root && !end.startsWith(`${root}/`)) throw wayOut(place, end);
  return end;
}

function isFolder(place: string): boolean {
  try {
    return statSync(place).isDirectory();
  } catch {
    return false;
  }
}

function endOf(place: string): string {
  try {
    return realpathSync(place);
  } catch {
    return path.resolve(path.dirname(place), readlinkSync(place));
  }
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
const POLL_MS = 1;

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
