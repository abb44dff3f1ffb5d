import { createHash } from 'node:crypto';
import { cp, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, symlink } from 'node:fs/promises';
import { homedir } from 'node:os';
import path from 'node:path';
import { execa } from 'execa';

/** How a migration tool comes onto this machine: once, into the user's cache, from versions that the project pins. */
export interface Toolchain {
  /** Files of the project that decide what is installed. */
  readonly pins: readonly string[];
  /** Fails where what the installation needs is missing; what it prints decides too what is installed. */
  readonly probe: readonly string[];
  /** What is missing when the probe fails. */
  readonly needs: string;
  /** Commands that install into the current folder, in which the pins lie. */
  readonly install: readonly (readonly string[])[];
  /** For each of them. Default: 8 minutes. */
  readonly timeoutMs?: number;
}

const CACHE = path.join(process.env.XDG_CACHE_HOME || path.join(homedir(), '.cache'), 'safemigrate-tests');
const PROBE_TIMEOUT_MS = 60_000;
const ABANDONED_AFTER_MS = 60 * 60_000;

/**
 * The folder where the tool is installed; installs it if need be. Nothing in a folder is moved afterwards, since
 * virtual environments hold their own path: a finished one is told by a link that leads there.
 * @returns `{ missing }` with the reason when it cannot be had.
 */
export async function toolchain(
  name: string,
  project: string,
  { pins, probe, needs, install, timeoutMs = 8 * 60_000 }: Toolchain,
): Promise<{ folder: string } | { missing: string }> {
  const found = await run(probe, homedir(), PROBE_TIMEOUT_MS);
  if (found.failed) return { missing: `${name} needs ${needs}, which is not installed` };
  const hash = createHash('sha256').update(JSON.stringify([found.output, install]));
  for (const pin of pins) hash.update(await readFile(path.join(project, pin)));
  const link = path.join(CACHE, `${name}-${hash.digest('hex').slice(0, 12)}`);
  if (await isFinished(link)) return { folder: await resolved(link) };

  await mkdir(CACHE, { recursive: true });
  await removeAbandoned(name);
  const folder = await mkdtemp(`${link}.`);
  for (const pin of pins) await cp(path.join(project, pin), path.join(folder, pin));
  const startedAt = performance.now();
  for (const argv of install) {
    const { failed, output } = await run(argv, folder, timeoutMs);
    if (!failed) continue;
    await rm(folder, { recursive: true, force: true });
    return { missing: `${name} could not be installed: ${argv.join(' ')}\n${output.slice(-2000)}` };
  }
  console.info(`installed ${name} in ${Math.round((performance.now() - startedAt) / 1000)} s: ${folder}`);
  try {
    await symlink(path.basename(folder), link);
  } catch {
    // Another run was quicker; both are the same.
    await rm(folder, { recursive: true, force: true });
  }
  return { folder: await resolved(link) };
}

async function run(
  argv: readonly string[],
  cwd: string,
  timeoutMs: number,
): Promise<{ failed: boolean; output: string }> {
  const [program = '', ...args] = argv;
  const result = await execa(program, args, {
    cwd,
    all: true,
    reject: false,
    stdin: 'ignore',
    timeout: timeoutMs,
  });
  return { failed: result.failed, output: result.all ?? String(result.cause ?? '') };
}

async function isFinished(link: string): Promise<boolean> {
  return (await stat(link).catch(() => undefined)) !== undefined;
}

async function resolved(link: string): Promise<string> {
  return path.join(CACHE, await readlink(link));
}

/** Folders of installations that were cut off: no link leads to them. */
async function removeAbandoned(name: string): Promise<void> {
  for (const entry of await readdir(CACHE)) {
    const [stem = '', random] = entry.split('.');
    if (random === undefined || !stem.startsWith(`${name}-`)) continue;
    const target = await readlink(path.join(CACHE, stem)).catch(() => undefined);
    const folder = path.join(CACHE, entry);
    const age = Date.now() - ((await stat(folder).catch(() => undefined))?.mtimeMs ?? Date.now());
    if (target !== entry && age > ABANDONED_AFTER_MS) await rm(folder, { recursive: true, force: true });
  }
}
