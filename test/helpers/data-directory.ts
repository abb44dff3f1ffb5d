import { execFile } from 'node:child_process';
import { createHash, randomBytes } from 'node:crypto';
import { mkdir, mkdtemp, open, readdir, readFile, rename, rm, statfs, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { byInitdb, type Server, type ServerOptions, startServer } from '../../src/local-server/embedded.ts';

const run = promisify(execFile);

/** startServer(), in memory where there is room, and without initdb where the store has what it would make. */
export async function startCopied(
  store: string,
  options: ServerOptions & Required<Pick<ServerOptions, 'version' | 'binaries'>>,
): Promise<Server> {
  const parent = options.parent ?? ((await hasRoom(MEMORY)) ? MEMORY : tmpdir());
  return startServer({ ...options, parent }, (place, { version, binaries, user, openSocket }) =>
    copyOrMake(store, [version, binaries, user, openSocket], path.join(place.folder, 'data'), () =>
      byInitdb(place, options),
    ),
  );
}

/** A whole test run copies thousands of databases: 700 s with them in here, 1,000 s with them on the disk. */
const MEMORY = '/dev/shm';
/** At most 2.1 GB were in use at any time. */
const ROOM_BYTES = 4 * 2 ** 30;

async function hasRoom(folder: string): Promise<boolean> {
  const found = await statfs(folder).catch(() => undefined);
  return found !== undefined && found.bavail * found.bsize >= ROOM_BYTES;
}

/**
 * initdb takes 0.65 s of CPU time, and a test run starts a hundred servers. So each kind of data directory is made once
 * in a run; a server that comes later starts with a copy of it, as another server: with an identity of its own.
 * @param store where those are kept that were made.
 * @param kind whatever makes a difference.
 * @param data is made by `make`, or is its copy; may be there as an empty folder.
 * @returns what `make` returned when it made the first one of this kind.
 */
export async function copyOrMake<T>(
  store: string,
  kind: readonly unknown[],
  data: string,
  make: () => Promise<T>,
): Promise<T> {
  const kept = path.join(store, createHash('sha256').update(JSON.stringify(kind)).digest('hex'));
  const known = await readFile(path.join(kept, 'made.json'), 'utf8').catch(() => undefined);
  if (known !== undefined) {
    await copy(path.join(kept, 'data'), data);
    await becomeAnother(data);
    return JSON.parse(known).made;
  }
  const made = await make();
  const draft = await mkdtemp(path.join(store, 'draft-'));
  await copy(data, path.join(draft, 'data'));
  await writeFile(path.join(draft, 'made.json'), JSON.stringify({ made }));
  // Of two that are made at the same time one is kept.
  await rename(draft, kept).catch(() => rm(draft, { recursive: true }));
  return made;
}

async function copy(from: string, to: string): Promise<void> {
  await mkdir(to, { recursive: true, mode: 0o700 });
  await run('cp', ['-a', `${from}/.`, to]);
}

/** The lower half of the system identifier, whose upper half is the second in which initdb ran. */
const IDENTITY_BYTES = 4;
/** Of the identifier in the long header that each segment of WAL begins with (XLogLongPageHeaderData). */
const IDENTITY_IN_WAL = 24;

/**
 * Gives a server that was shut down another system identifier. pg_control begins with it, and so does the WAL that is
 * read when the server starts.
 */
async function becomeAnother(data: string): Promise<void> {
  const identity = randomBytes(IDENTITY_BYTES);
  const file = path.join(data, 'global', 'pg_control');
  const control = await readFile(file);
  const end = endOfFields(control);
  identity.copy(control);
  control.writeUInt32LE(crc32c(control.subarray(0, end)), end);
  await overwrite(file, 0, control);
  const wal = path.join(data, 'pg_wal');
  const segments = (await readdir(wal)).filter((name) => /^[0-9A-F]{24}$/.test(name));
  for (const segment of segments) await overwrite(path.join(wal, segment), IDENTITY_IN_WAL, identity);
}

async function overwrite(file: string, position: number, bytes: Buffer): Promise<void> {
  const handle = await open(file, 'r+');
  await handle.write(bytes, 0, bytes.length, position);
  await handle.close();
}

/** The checksum stands behind the last field of pg_control, at a place that depends on the version. */
function endOfFields(control: Buffer): number {
  for (let end = 8; end + 4 <= control.length; end += 4)
    if (crc32c(control.subarray(0, end)) === control.readUInt32LE(end)) return end;
  throw new Error('pg_control holds no checksum of itself');
}

const CRC32C_POLYNOMIAL = 0x82f63b78;

function crc32c(bytes: Buffer): number {
  let crc = ~0;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? CRC32C_POLYNOMIAL : 0);
  }
  return ~crc >>> 0;
}
