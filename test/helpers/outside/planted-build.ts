import { execFile } from 'node:child_process';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import type { PlantedFault } from './planted-faults.ts';

const run = promisify(execFile);

const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
const COPIED = ['src', 'build.mjs', 'package.json', 'tsconfig.json', 'LICENSE'];

/** A copy of the source, for one fault after the other. */
export interface PlantedBuild {
  /** Builds the program with this fault alone. @returns the words that start it. @throws if its text is not there exactly once. */
  plant(fault: PlantedFault): Promise<readonly string[]>;
  remove(): Promise<void>;
}

export async function plantedBuild(): Promise<PlantedBuild> {
  const folder = await mkdtemp(path.join(tmpdir(), 'safemigrate-planted-'));
  for (const name of COPIED) await cp(path.join(ROOT, name), path.join(folder, name), { recursive: true });
  await linkPackages(path.join(ROOT, 'node_modules'), path.join(folder, 'node_modules'));
  return {
    async plant({ file, search, replace }) {
      const place = path.join(folder, 'src', file);
      const source = await readFile(path.join(ROOT, 'src', file), 'utf8');
      const times = source.split(search).length - 1;
      if (times !== 1) throw new Error(`stands ${times} times in src/${file}: ${search}`);
      await writeFile(
        place,
        source.replace(search, () => replace),
      );
      try {
        await run(process.execPath, ['build.mjs'], { cwd: folder });
      } finally {
        await writeFile(place, source);
      }
      return [process.execPath, path.join(folder, 'dist/cli/main.js')];
    },
    remove: () => rm(folder, { recursive: true }),
  };
}

const NO_TYPES = `
const { mkdirSync, writeFileSync } = require('node:fs');
const folder = process.argv.at(-1);
mkdirSync(folder, { recursive: true });
writeFileSync(folder + '/index.d.ts', '');
`;

/** The build makes a folder of its own among them. */
async function linkPackages(from: string, to: string): Promise<void> {
  await mkdir(to);
  const names = (await readdir(from)).filter((name) => !name.startsWith('.') && name !== 'typescript');
  for (const name of names) await symlink(path.join(from, name), path.join(to, name));
  // Types take most of the time, and nobody reads them.
  await mkdir(path.join(to, 'typescript', 'bin'), { recursive: true });
  await writeFile(path.join(to, 'typescript', 'bin', 'tsc'), NO_TYPES);
}
