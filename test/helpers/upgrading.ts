import { chmod, cp, mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { inject } from 'vitest';
import { type UpgradeReport, upgradeReport } from '../../src/model/upgrade-model.ts';
import { type CliResult, safemigrate } from './cli.ts';
import { withClient } from './client.ts';
import { changedUrl } from './cloning.ts';
import { loopFileSystem, loopFileSystemObstacle } from './file-system.ts';
import { programsOf } from './own-server.ts';
import { debianPrograms, type PlacedServer, type Placing, placedServer } from './placed-server.ts';
import { skipReason } from './requirements.ts';
import { upgradePrograms } from './upgrade-programs.ts';

const MB = 2 ** 20;

export interface UpgradeRun extends CliResult {
  /** null if there was nothing to report on. */
  readonly report: UpgradeReport | null;
}

/** What upgrades from 15 to 18 are tried with: releases that fit, whichever Debian has. Two of the old programs are Debian's. */
export const OLD = { programs: await programsOf(15), obstacle: (await debianPrograms(15)).obstacle };
export const NEW = await upgradePrograms(18);
export const cannotUpgrade = skipReason(
  OLD.obstacle ?? NEW.obstacle ?? (await loopFileSystemObstacle('xfs')),
);

/** A server of PostgreSQL 15 on an XFS of its own, with a database `app`. */
export interface ServerToUpgrade {
  readonly server: PlacedServer;
  /** Of `app`. */
  readonly url: string;
  stop(): Promise<void>;
}

/** @param diskBytes of its file system. */
export async function serverToUpgrade(
  placing: Partial<Placing> = {},
  diskBytes = 2048 * MB,
): Promise<ServerToUpgrade> {
  const disk = await loopFileSystem('xfs', diskBytes);
  const programs = await reachable(placing.programs ?? OLD.programs, disk.folder);
  const settings = { max_wal_size: '100MB', ...placing.settings };
  const server = await placedServer(15, { parent: disk.folder, ...placing, programs, settings });
  const url = changedUrl(server.url, { database: 'app' });
  await withClient(server.url, (client) => client.query('CREATE DATABASE app'));
  return {
    server,
    url,
    async stop() {
      await server.stop();
      await disk.destroy();
    },
  };
}

/** Copies an installation of a Python package to where the server's user may read it, unless it is. @returns its folder of programs. */
export async function reachable(programs: string, place: string): Promise<string> {
  const isOfAll = [inject('store'), '/usr'].some((folder) => programs.startsWith(`${folder}/`));
  if (isOfAll || programs === OLD.programs) return programs;
  const installed = path.resolve(programs, '../../..');
  await cp(installed, path.join(place, 'installed'), { recursive: true });
  await chmod(path.join(place, 'installed'), 0o755);
  return path.join(place, 'installed', path.relative(installed, programs));
}

/** Rehearses an upgrade by the built command line. @param args words after `upgrade --url … --to …`. */
export async function rehearseUpgradeOf(
  url: string,
  to: number,
  args: readonly string[],
  env: NodeJS.ProcessEnv = {},
  command: readonly string[] = [],
): Promise<UpgradeRun> {
  const folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-upgrade-'));
  const file = path.join(folder, 'report.json');
  try {
    const words = ['upgrade', '--url', url, '--to', String(to), '--report', file, ...args];
    if (command.length > 0) words.push('--', ...command);
    const result = await safemigrate(words, { env });
    const text = await readFile(file, 'utf8').catch(() => null);
    return { ...result, report: text === null ? null : upgradeReport.parse(JSON.parse(text)) };
  } finally {
    await rm(folder, { recursive: true });
  }
}
