import { lstat, mkdir, readdir, symlink, unlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { type Compare, compareByText } from '../database/same-target.ts';
import { SafemigrateError } from '../errors.ts';
import { makeWorkFolder } from '../local-server/folder-cleaner.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import type { Scope } from '../scope.ts';
import { edited, type FileConnection, findInFile, findLeft } from './config-text.ts';
import { type Child, effective, type Mention, type Undecided, type Variables } from './mention.ts';

const PLACEHOLDER = /\{safemigrate:config ([^{}]+)\}/g;

/** A file that the command gets a copy of, as the placeholder calls it. */
export interface ConfigFile {
  readonly name: string;
  readonly path: string;
  readonly text: string;
}

/** The copy's text, in which the clone stands for the target. */
export type ConfigCopy = ConfigFile;

/** Tells whether an argument or a variable asks for a copy of a file. */
export function namesConfigFile(texts: readonly string[]): boolean {
  return texts.some((text) => text.search(PLACEHOLDER) >= 0);
}

/** Puts the path of the file itself where a copy was asked for. */
export function withOriginalPath(text: string): string {
  return text.replace(PLACEHOLDER, '$1');
}

/**
 * Reads the files that `{safemigrate:config FILE}` names, and finds the target in them.
 * @throws SafemigrateError `CONFIGURATION` if a file cannot be read or does not name the target.
 */
export async function findConfigFiles(
  argv: readonly string[],
  variables: Variables,
  environment: Environment,
  { target, compare }: { readonly target: ConnectionSettings; readonly compare: Compare },
) {
  const texts = [...argv, ...Object.values(effective(variables))];
  const names = new Set(
    texts.flatMap((text) => [...text.matchAll(PLACEHOLDER)].map(([, name = '']) => name)),
  );
  const files: ConfigFile[] = [];
  const mentions: Mention[] = [];
  const undecided: Undecided[] = [];
  for (const name of names) {
    const file = readConfigFile(name, environment);
    const own = await mentionsIn(file, { ...environment, env: effective(variables) }, target, compare);
    if (!own.mentions.some(({ namesServer }) => namesServer)) throw doesNotName(name, own.undecided);
    files.push(file);
    mentions.push(...own.mentions);
    undecided.push(...own.undecided);
  }
  return { files, mentions, undecided };
}

function readConfigFile(name: string, environment: Environment): ConfigFile {
  const file = path.resolve(environment.folder, name);
  const text = environment.readFile(file);
  if (text !== undefined) return { name, path: file, text };
  throw new SafemigrateError('CONFIGURATION', `{safemigrate:config ${name}}: ${file} cannot be read.`, {
    hint: 'The path is relative to the folder in which safemigrate runs. The target was not touched.',
  });
}

async function mentionsIn(
  { name, path: file, text }: ConfigFile,
  environment: Environment,
  target: ConnectionSettings,
  compare: Compare,
) {
  const mentions: Mention[] = [];
  const undecided: Undecided[] = [];
  for (const connection of findInFile(text, file, environment, target)) {
    const verdict = await verdictOf(connection, target, compare);
    const label = `${name}:${connection.line}`;
    if (verdict.kind === 'undecided') undecided.push({ name: label, reason: verdict.reason });
    // The copy must not name the target's server, for whatever database.
    if (verdict.kind === 'same') mentions.push(mention(label, file, connection, null));
    if (verdict.kind === 'other-database')
      mentions.push(mention(label, file, connection, connection.settings.database));
  }
  return { mentions, undecided };
}

async function verdictOf(connection: FileConnection, target: ConnectionSettings, compare: Compare) {
  if (connection.isDatabase) return compare(connection.settings);
  return compareByText(connection.settings, target) ?? { kind: 'other-server' as const };
}

function mention(
  label: string,
  file: string,
  connection: FileConnection,
  keptDatabase: string | null,
): Mention {
  const { settings, namesServer, lacksPassword } = connection;
  return {
    label,
    settings,
    namesServer,
    lacksPassword,
    apply: (child, entry) => {
      const led = keptDatabase === null ? entry : { ...entry, database: keptDatabase };
      child.edits.set(file, [...(child.edits.get(file) ?? []), ...connection.edits(led)]);
    },
  };
}

function doesNotName(name: string, undecided: readonly Undecided[]): SafemigrateError {
  const [first] = undecided;
  const why = first
    ? ` ${first.name} names a server that could not be compared with it: ${first.reason}.`
    : ' It contains neither its URL nor its host, port and database in keys next to each other.';
  return new SafemigrateError('CONFIGURATION', `${name} does not name the target.${why}`, {
    hint: 'Name the file that contains the connection. The command was not started, and the target was not touched.',
  });
}

/**
 * Edits the files for the clone.
 * @throws SafemigrateError `CONFIGURATION` if one would still name the target.
 */
export function editConfigFiles(
  files: readonly ConfigFile[],
  { edits }: Child,
  environment: Environment,
  target: ConnectionSettings,
): ConfigCopy[] {
  return files.map(({ name, path: file, text }) => {
    const copy = edited(text, edits.get(file) ?? []);
    const line = findLeft(copy, file, environment, target);
    if (line === undefined) return { name, path: file, text: copy };
    throw new SafemigrateError(
      'CONFIGURATION',
      `${name} names the target in a way that cannot be replaced, near line ${line} of its copy.`,
      {
        hint: 'Write the connection there as a URL, or as plain values. The command was not started, and the target was not touched.',
      },
    );
  });
}

/**
 * Writes the copies, and puts their paths where the placeholders were. They lie in a private folder that the scope removes. The folders
 * around each file are there as well, with links to all that stands beside it, so that relative paths and imports lead where they did.
 */
export async function placeConfigCopies<
  T extends { argv: readonly string[]; env: Readonly<Record<string, string>> },
>(scope: Scope, rewritten: T & { readonly copies: readonly ConfigCopy[] }): Promise<T> {
  const { copies, argv, env } = rewritten;
  if (copies.length === 0) return rewritten;
  const { folder } = await scope.own(
    'configuration files',
    () => makeWorkFolder(tmpdir(), 'configuration', copies.map(({ name }) => name).join(', ')),
    async (made) => made?.guard.dismiss(),
  );
  const root = path.join(folder, 'files');
  await mkdir(root, { mode: 0o700 });
  const mirrored = new Set<string>();
  for (const copy of copies) {
    await mirror(root, path.dirname(copy.path), mirrored);
    const file = path.join(root, copy.path);
    await unlink(file).catch(() => {});
    await writeFile(file, copy.text, { mode: 0o600, flag: 'wx' });
  }
  const fill = (text: string) =>
    text.replace(PLACEHOLDER, (all, name: string) => {
      const copy = copies.find((each) => each.name === name);
      return copy ? path.join(root, copy.path) : all;
    });
  return {
    ...rewritten,
    argv: argv.map(fill),
    env: Object.fromEntries(Object.entries(env).map(([name, value]) => [name, fill(value)])),
  };
}

/** Above the file's own folder, a folder with more entries has nothing that a configuration refers to. */
const MANY_ENTRIES = 2_000;

/** Makes the folder below `root`, and those above it, and links in each what the original has. */
async function mirror(root: string, folder: string, mirrored: Set<string>, isOwn = true): Promise<void> {
  if (mirrored.has(folder)) return;
  mirrored.add(folder);
  const copy = path.join(root, folder);
  const above = path.dirname(folder);
  if (above !== folder) {
    await mirror(root, above, mirrored, false);
    await unlink(copy).catch(() => {});
    await mkdir(copy, { mode: 0o700, recursive: true });
  }
  // A folder above may be closed to us, as long as the file is not.
  const names = await readdir(folder).catch(() => []);
  if (!isOwn && names.length > MANY_ENTRIES) return;
  for (const name of names) {
    const link = path.join(copy, name);
    const isThere = await lstat(link).catch(() => undefined);
    if (!isThere) await symlink(path.join(folder, name), link);
  }
}
