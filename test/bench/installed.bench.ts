import { spawnSync } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { test } from 'vitest';
import { recordFigures } from './figures.ts';
import { installed } from './installed.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const { BENCH_AGAINST } = process.env;

/** Another checkout is that of the commit before PostgreSQL's programs left the dependencies. */
test('what npm installs', () => {
  const checkouts = BENCH_AGAINST === undefined ? [ROOT] : [BENCH_AGAINST, ROOT];
  const rows = checkouts.map((checkout) => {
    const { tarballBytes, bytes, packages } = installed(checkout);
    const { stdout } = spawnSync('git', ['log', '-1', '--format=%h'], { cwd: checkout, encoding: 'utf8' });
    return {
      commit: stdout.trim(),
      'tarball, MB': (tarballBytes / 1e6).toFixed(1),
      'installed, MB': Math.round(bytes / 1e6),
      packages,
    };
  });
  recordFigures('what npm install of the tarball puts onto the disk', rows, [
    "The first is the last commit with PostgreSQL's programs among its dependencies. Bytes of all files, and packages of node_modules, safemigrate among them.",
  ]);
}, 1_200_000);
