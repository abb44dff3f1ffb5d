import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { messageOf, SafemigrateError } from '../../errors.ts';
import type { CommandIsolation } from '../../model/report.ts';
import type { ConnectionSettings, HostAndPort } from '../../postgres/connection/connection-settings.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { socketInodes } from '../process-sockets.ts';
import { postmasterOf } from '../server-process.ts';
import { type AllowedPlaces, LOOPBACK } from './allowed-places.ts';
import type { SandboxMode } from './sandbox-mode.ts';
import { bubblewrapWords, coverWords, type SandboxParts, unshareWords } from './sandbox-words.ts';
import { listeningUnixSockets, pathsToCover, realSocket } from './unix-sockets.ts';

export interface SandboxPlan {
  readonly mode: SandboxMode;
  readonly allow: AllowedPlaces;
}

/** What stands between the command and the target, besides the proxy. */
export type CommandSandbox =
  | {
      readonly kind: 'sandboxed';
      readonly by: 'bubblewrap' | 'unshare';
      readonly allow: AllowedPlaces;
      readonly settings: ConnectionSettings;
    }
  /** The target's Unix sockets are covered, and nothing else. */
  | { readonly kind: 'covered'; readonly sockets: readonly string[] }
  | { readonly kind: 'none' };

const execute = promisify(execFile);
const PROBE_MS = 10_000;

const WAYS = { bubblewrap: bubblewrapWords, unshare: unshareWords } as const;
const HINT =
  'Install bubblewrap (apt-get install bubblewrap), permit user namespaces, or run as root; without --sandbox required the ' +
  'command is watched instead. Nothing was touched.';

/** Whether there can be a sandbox here. */
export type Sandboxing =
  | { readonly possible: true; readonly by: 'bubblewrap' | 'unshare' }
  | { readonly possible: false; readonly reason: string };

/** @throws SafemigrateError `SANDBOX` if the command cannot be sandboxed; `CONFIGURATION` if the target is allowed. */
export async function requireSandbox(
  allow: AllowedPlaces,
  settings: ConnectionSettings,
): Promise<CommandSandbox> {
  refuseTarget(allow, settings);
  const sandboxing = await trySandbox(settings, allow);
  if (!sandboxing.possible) throw unavailable(sandboxing.reason);
  return { kind: 'sandboxed', by: sandboxing.by, allow, settings };
}

const NOTHING_ALLOWED: AllowedPlaces = { relays: [], sockets: [] };

/** Tries the ways to a sandbox (some 20 ms). */
export async function trySandbox(settings: ConnectionSettings, allow = NOTHING_ALLOWED): Promise<Sandboxing> {
  if (process.platform !== 'linux')
    return { possible: false, reason: `there is none on ${process.platform}, only on Linux` };
  const parts = await partsOf({ allow, settings });
  const failures: string[] = [];
  for (const by of ['bubblewrap', 'unshare'] as const) {
    const words = WAYS[by](parts);
    const failure =
      words === undefined ? 'it is not installed' : await failureOf([...words, '/bin/sh', '-c', ':']);
    if (failure === null) return { possible: true, by };
    failures.push(`${by}: ${failure}`);
  }
  return { possible: false, reason: failures.join('; ') };
}

/** A way to the target past the proxy would make the sandbox worthless. */
function refuseTarget({ relays, sockets }: AllowedPlaces, settings: ConnectionSettings): void {
  const own = new Set(socketPathsOf(settings).map(realSocket));
  const named = [
    ...relays.filter(({ host, port }) => settings.hosts.some((each) => sameAddress(each, { host, port }))),
    ...sockets.filter((file) => own.has(realSocket(file))),
  ];
  if (named.length === 0) return;
  throw new SafemigrateError('CONFIGURATION', '--sandbox-allow names the target itself.', {
    hint: 'The command reaches its clone without that. Nothing was touched.',
  });
}

function sameAddress(one: HostAndPort, other: HostAndPort): boolean {
  const local = [one, other].every(({ host }) => LOOPBACK.test(host));
  return one.port === other.port && (local || one.host.toLowerCase() === other.host);
}

/** The words before a program that run it in the sandbox, as the machine's sockets are now. */
export async function sandboxWords(
  sandbox: Extract<CommandSandbox, { kind: 'sandboxed' }>,
): Promise<readonly string[]> {
  const words = WAYS[sandbox.by](await partsOf(sandbox));
  if (words === undefined) throw unavailable(`${sandbox.by} is no longer installed`);
  return words;
}

async function partsOf({
  allow,
  settings,
}: {
  readonly allow: AllowedPlaces;
  readonly settings: ConnectionSettings;
}): Promise<SandboxParts> {
  const names = allow.relays.filter(({ host, inside }) => host !== inside && host !== 'localhost');
  const lines = names.map(({ host, inside }) => `${inside} ${host}`);
  return {
    covered: await pathsToCover(allow.sockets, socketPathsOf(settings)),
    // The first line for a name counts.
    hosts: names.length === 0 ? null : [...new Set(lines), readFileSync('/etc/hosts', 'utf8')].join('\n'),
    lowPorts: allow.relays.some(({ port }) => port < 1024),
  };
}

/** Paths of the sockets that these settings name. */
function socketPathsOf({ hosts }: ConnectionSettings): string[] {
  return hosts.flatMap(({ host, port }) => (host.startsWith('/') ? [`${host}/.s.PGSQL.${port}`] : []));
}

async function failureOf([program = '', ...args]: readonly string[]): Promise<string | null> {
  try {
    await execute(program, args, { timeout: PROBE_MS, env: {} });
    return null;
  } catch (error) {
    const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
    return said.split('\n')[0] || messageOf(error);
  }
}

function unavailable(why: string): SafemigrateError {
  return new SafemigrateError('SANDBOX', `The command cannot be sandboxed here: ${why}.`, { hint: HINT });
}

/**
 * Covers the target's Unix sockets for the command, as `auto` does: only as root, and only if they are proved to be the target's.
 * @param control a session on the target's server.
 */
export async function coverTargetSockets(
  settings: ConnectionSettings,
  control: Session,
): Promise<CommandSandbox> {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return { kind: 'none' };
  const paths = [...socketPathsOf(settings), ...(await socketsOfServer(control))];
  const sockets = [...new Set(paths.flatMap((file) => realSocket(file) ?? []))];
  const words = sockets.length === 0 ? undefined : coverWords(sockets);
  if (words === undefined || (await failureOf([...words, '/bin/sh', '-c', ':'])) !== null)
    return { kind: 'none' };
  return { kind: 'covered', sockets };
}

/** Finds the Unix sockets of a server on this machine: its postmaster listens on them. */
async function socketsOfServer(control: Session): Promise<string[]> {
  const postmaster = await postmasterOf(control);
  if (postmaster === undefined) return [];
  const inodes = socketInodes(postmaster) ?? new Set();
  return (await listeningUnixSockets()).filter(({ inode }) => inodes.has(inode)).map((each) => each.path);
}

/** The report's words for it. */
export function describeIsolation(sandbox: CommandSandbox): CommandIsolation {
  switch (sandbox.kind) {
    case 'sandboxed': {
      const { relays, sockets } = sandbox.allow;
      const allowed = [...relays.map(({ host, port }) => `${host}:${port}`), ...sockets];
      return { kind: 'sandboxed', by: sandbox.by, covered: [], allowed };
    }
    case 'covered':
      return { kind: 'watched', by: null, covered: [...sandbox.sockets], allowed: [] };
    case 'none':
      return { kind: 'watched', by: null, covered: [], allowed: [] };
  }
}
