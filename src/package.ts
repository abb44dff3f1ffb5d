import { existsSync, readFileSync } from 'node:fs';

/** The package's folder: sources and what is built of them lie at different depths in it. */
const FOLDER = findFolder(new URL('./', import.meta.url));

function findFolder(folder: URL): URL {
  if (existsSync(new URL('package.json', folder))) return folder;
  const parent = new URL('../', folder);
  if (parent.href === folder.href) throw new Error('safemigrate lies outside of its package');
  return findFolder(parent);
}

/** A file that is not a module: next to the source, or copied to dist by the build. */
export function shippedFile(name: string): URL {
  const fromSources = import.meta.url === new URL('src/package.ts', FOLDER).href;
  return new URL(`${fromSources ? 'src' : 'dist'}/${name}`, FOLDER);
}

/** A file that the build made, for what runs in a thread or a process of its own: Node 20 cannot run sources there. */
export function builtFile(name: string): URL {
  return new URL(`dist/${name}`, FOLDER);
}

/** The version of the package that this file is installed with. */
export function toolVersion(): string {
  const { version }: { version: string } = JSON.parse(readFileSync(new URL('package.json', FOLDER), 'utf8'));
  return version;
}
