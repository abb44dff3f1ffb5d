import { execFile } from 'node:child_process';
import { lstat, readdir, readFile } from 'node:fs/promises';
import { totalmem } from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { mountOf, readMounts } from '../../database/mounts.ts';
import { codeOf } from '../../errors.ts';
import type { Session } from '../../postgres/connection/session.ts';
import type { CloneContext } from '../method.ts';
import { CopyObstacle } from '../obstacle.ts';
import { type CowFacts, type CowFinding, findCowMistakes } from './cow-rules.ts';
import { surveyCluster } from './survey.ts';

const execute = promisify(execFile);

/** Finds what in the settings of the target's server and file system does not suit copy-on-write; nothing if its files are not here. */
export async function examineCopyOnWrite(context: CloneContext): Promise<CowFinding[]> {
  try {
    const facts = await readCowFacts(context);
    return facts ? findCowMistakes(facts) : [];
  } catch (error) {
    if (error instanceof CopyObstacle || codeOf(error) !== '') return [];
    throw error;
  }
}

async function readCowFacts(context: CloneContext): Promise<CowFacts | undefined> {
  const { layout, strategy } = await surveyCluster(context);
  const mounts = await readMounts();
  const mount = mountOf(layout.data, mounts);
  const wal = mountOf(layout.wal, mounts);
  const kind = (['zfs', 'btrfs', 'xfs'] as const).find((each) => each === mount?.type);
  if (!mount || !kind) return undefined;
  const target = path.join(layout.data, 'base', String(context.target.database.oid));
  const isZfs = kind === 'zfs';
  return {
    kind,
    server: await readSettings(context.control),
    dataset: isZfs ? await readDataset(mount.source) : new Map(),
    walDataset: wal?.type === 'zfs' ? await readDataset(wal.source) : new Map(),
    arcBytes: isZfs ? await readArcLimit() : null,
    memoryBytes: totalmem(),
    zfsVersion: isZfs ? ((await said('zfs', ['version']))?.match(/^zfs-(\S+)/)?.[1] ?? null) : null,
    blockCloning: isZfs ? await readBlockCloning() : null,
    shares: strategy !== 'copy',
    nodatacow: kind === 'btrfs' && /^\S*C/.test((await said('lsattr', ['-d', target])) ?? ''),
    extents: isZfs ? null : await extentsOfLargest(target),
  };
}

const SETTINGS = `
SELECT name, CASE unit WHEN '8kB' THEN (setting::int8 * 8192)::text ELSE setting END AS value
  FROM pg_settings
 WHERE name IN ('wal_init_zero', 'wal_recycle', 'full_page_writes', 'shared_buffers', 'debug_io_direct', 'io_direct')`;

async function readSettings(session: Session): Promise<ReadonlyMap<string, string>> {
  const rows = await session.query<{ name: string; value: string }>(SETTINGS);
  return new Map(rows.map(({ name, value }) => [name, value]));
}

async function readDataset(name: string): Promise<ReadonlyMap<string, string>> {
  const properties = (await said('zfs', ['get', '-Hp', '-o', 'property,value', 'all', name])) ?? '';
  const [pool = ''] = name.split('/');
  const entries = properties.split('\n').map((line) => line.split('\t') as [string, string]);
  for (const property of ['capacity', 'fragmentation']) {
    const value = Number.parseInt((await said('zpool', ['list', '-H', '-o', property, pool])) ?? '', 10);
    if (!Number.isNaN(value)) entries.push([`pool.${property}`, String(value)]);
  }
  return new Map(entries);
}

async function readArcLimit(): Promise<number | null> {
  const text = await readFile('/proc/spl/kstat/zfs/arcstats', 'utf8').catch(() => '');
  const limit = /^c_max\s+\d+\s+(\d+)/m.exec(text)?.[1];
  return limit === undefined ? null : Number(limit);
}

async function readBlockCloning(): Promise<boolean | null> {
  const text = await readFile('/sys/module/zfs/parameters/zfs_bclone_enabled', 'utf8').catch(() => '');
  return text === '' ? null : text.trim() === '1';
}

async function extentsOfLargest(folder: string): Promise<number | null> {
  const names = await readdir(folder).catch(() => []);
  const sizes = await Promise.all(
    names.map((name) =>
      lstat(path.join(folder, name)).then(
        ({ size }) => ({ name, size }),
        () => ({ name, size: 0 }),
      ),
    ),
  );
  const [largest] = sizes.sort((one, other) => other.size - one.size);
  if (!largest) return null;
  const found = (await said('filefrag', [path.join(folder, largest.name)]))?.match(/: (\d+) extents? found/);
  return found ? Number(found[1]) : null;
}

/** Returns what a program prints; undefined if it is missing, or fails. */
async function said(program: string, words: string[]): Promise<string | undefined> {
  return execute(program, words).then(
    ({ stdout }) => stdout.trim(),
    () => undefined,
  );
}
