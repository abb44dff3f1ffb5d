import { execFileSync } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Our own TypeScript as one file that Node 20 can run in a process of its own, beside the packages, so that they are found.
 * @param source from the project's folder on.
 * @returns where it is; to be removed by the caller.
 */
export function bundled(source: string): string {
  const name = `${path.basename(source, path.extname(source))}-${process.pid}.mjs`;
  const made = path.join(ROOT, 'node_modules', '.cache', name);
  const how = ['--bundle', '--platform=node', '--format=esm', '--packages=external', '--log-level=error'];
  execFileSync(path.join(ROOT, 'node_modules', '.bin', 'esbuild'), [
    ...[path.join(ROOT, source), `--outfile=${made}`],
    ...how,
  ]);
  return made;
}
