import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { getAsset, isSea } from 'node:sea';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { Worker, type WorkerOptions } from 'node:worker_threads';

// Files that come with the program: those of an npm package, or assets of the single executable.

/** Programs for separate processes. */
export type OwnProgram = 'cli/demo/migrate' | 'command/sandbox/launcher' | 'swap/reopen-agent-process';
/** Programs for threads. */
type OwnThread = 'postgres/sql/parser-thread' | 'schema/worker';

/** The first word of the arguments with which the executable starts one of our programs; the second names that program. */
export const PROGRAM_WORD = '__program';

/** Says whether the program is the single executable, which has neither Node nor packages beside it. */
export const isStandalone = isSea();

let folder: URL | undefined;

/** The package's folder: sources and what is built of them lie at different depths in it. */
function packageFolder(): URL {
  folder ??= findFolder(new URL('./', import.meta.url));
  return folder;
}

function findFolder(place: URL): URL {
  if (existsSync(new URL('package.json', place))) return place;
  const parent = new URL('../', place);
  if (parent.href === place.href) throw new Error('safemigrate lies outside of its package');
  return findFolder(parent);
}

/** Reads a file that is not a module: next to the source, or copied to dist by the build. */
export function shippedText(name: string): string {
  if (isStandalone) return getAsset(name, 'utf8');
  const fromSources = import.meta.url === new URL('src/package.ts', packageFolder()).href;
  return readFileSync(new URL(`${fromSources ? 'src' : 'dist'}/${name}`, packageFolder()), 'utf8');
}

/** A file that the build made: Node 20 cannot run sources in a thread or a further process. */
function builtFile(name: string): URL {
  return new URL(`dist/${name}.js`, packageFolder());
}

/** The words that start one of our programs in a further process. */
export function wordsOfProgram(name: OwnProgram): [program: string, ...words: string[]] {
  return isStandalone
    ? [process.execPath, PROGRAM_WORD, name]
    : [process.execPath, fileURLToPath(builtFile(name))];
}

export function startThread(name: OwnThread, options: WorkerOptions): Worker {
  return isStandalone
    ? new Worker(getAsset(`${name}.cjs`, 'utf8'), Object.assign({ eval: true }, options))
    : new Worker(builtFile(name), options);
}

/** Loads a module of the user. The single executable can only require it, so that it may not await anything at its top. */
export async function loadModule(file: string): Promise<{ readonly default?: unknown }> {
  if (!isStandalone) return import(pathToFileURL(file).href);
  const module = createRequire(file)(file);
  return Object.hasOwn(module, 'default') ? module : { default: module };
}

/** The version of the package that this file is installed with. */
export function toolVersion(): string {
  return packageFacts().version;
}

/** The version of another package that this one works with, if the user installs it. */
export function versionOfPeer(name: string): string | undefined {
  return packageFacts().peerDependencies[name];
}

function packageFacts(): { version: string; peerDependencies: Record<string, string> } {
  const text = isStandalone
    ? getAsset('package.json', 'utf8')
    : readFileSync(new URL('package.json', packageFolder()), 'utf8');
  return JSON.parse(text);
}
