import { execFile } from 'node:child_process';
import { copyFile } from 'node:fs/promises';
import { createRequire } from 'node:module';
import path from 'node:path';
import { promisify } from 'node:util';
import type { ServerVersion } from '../../src/local-server/binaries.ts';

const run = promisify(execFile);

/** Programs that pg_upgrade asks of the old version and that the packages lack. */
const LACKED = ['pg_controldata', 'pg_resetwal'] as const;

/** 14 to 17 come with the workspace test/servers, under names of their own; undefined where there is no build. */
export function testBinaries(version: ServerVersion): string | undefined {
  try {
    const require = createRequire(new URL('../servers/package.json', import.meta.url));
    const entry = require.resolve(`postgresql-${version}-${process.platform}-${process.arch}`);
    return path.join(path.dirname(entry), '..', 'native', 'bin');
  } catch {
    return undefined;
  }
}

/**
 * Copies an installation of a package into `folder`, and adds what it lacks for being upgraded from another installation of
 * the same major version. The server stays the package's: whether it can be upgraded depends on its minor release, and
 * the machine's may be newer than each release of the new version that can be had.
 * @returns the folder of its programs.
 */
export async function upgradableInstallation(
  programs: string,
  other: string,
  folder: string,
): Promise<string> {
  await run('cp', ['-a', path.dirname(programs), folder]);
  const copied = path.join(folder, path.basename(programs));
  for (const program of LACKED) await copyFile(path.join(other, program), path.join(copied, program));
  return copied;
}
