import { spawnSync } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
/** What the build writes first: a source that changes while it runs counts as newer. */
const FIRST_BUILT = 'dist/index.d.ts';

/** Builds if a source is newer than dist, because threads, processes and the CLI run from there. @throws Error if the build fails. */
export function buildIfStale(): void {
  const built = changedAt(FIRST_BUILT);
  if (built !== undefined && newestSource() <= built) return;
  const { status, stderr } = spawnSync(process.execPath, ['build.mjs'], { cwd: ROOT, encoding: 'utf8' });
  if (status !== 0) throw new Error(`dist is older than src, and the build failed:\n${stderr}`);
}

/** A folder changes with each file that is added to it or removed. */
function newestSource(): number {
  const sources = readdirSync(path.join(ROOT, 'src'), { recursive: true, encoding: 'utf8' });
  const files = ['build.mjs', 'package.json', 'src', ...sources.map((name) => path.join('src', name))];
  return Math.max(...files.map((file) => changedAt(file) ?? 0));
}

function changedAt(file: string): number | undefined {
  return statSync(path.join(ROOT, file), { throwIfNoEntry: false })?.mtimeMs;
}
