import { spawnSync } from 'node:child_process';
import { readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import path from 'node:path';
import { temporaryFolder } from '../helpers/cli.ts';

export interface Installed {
  readonly tarballBytes: number;
  /** Of all files in node_modules. */
  readonly bytes: number;
  readonly packages: number;
}

/** Packs a checkout, and installs the tarball elsewhere as a user would. */
export function installed(checkout: string): Installed {
  const folder = temporaryFolder();
  must('npm', ['pack', '--silent', '--pack-destination', folder], checkout);
  const [tarball = ''] = readdirSync(folder);
  must('npm', ['init', '--yes'], folder);
  must('npm', ['install', '--no-audit', '--no-fund', `./${tarball}`], folder);
  const tarballBytes = statSync(path.join(folder, tarball)).size;
  rmSync(path.join(folder, tarball));
  const modules = path.join(folder, 'node_modules');
  const lock = JSON.parse(readFileSync(path.join(modules, '.package-lock.json'), 'utf8'));
  return { tarballBytes, bytes: bytesIn(modules), packages: Object.keys(lock.packages).length };
}

/** The size of all files in a folder. */
export function bytesIn(folder: string): number {
  return readdirSync(folder, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .reduce((sum, entry) => sum + statSync(path.join(entry.parentPath, entry.name)).size, 0);
}

export function must(program: string, args: readonly string[], folder: string): void {
  const { status, stderr } = spawnSync(program, args, { cwd: folder, encoding: 'utf8' });
  if (status !== 0) throw new Error(`${program} ${args.join(' ')}: ${stderr}`);
}
