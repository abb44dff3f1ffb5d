import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { promisify } from 'node:util';
import { messageOf } from '../../errors.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import type { AllowedPlaces } from './allowed-places.ts';
import {
  bubblewrapWords,
  landlockWords,
  type Restriction,
  type SandboxParts,
  sandboxExecWords,
  unshareWords,
} from './sandbox-words.ts';
import { pathsToCover, socketPathsOf } from './unix-sockets.ts';

const execute = promisify(execFile);
const PROBE_MS = 10_000;

const SANDBOXES = { bubblewrap: bubblewrapWords, unshare: unshareWords } as const;
export type SandboxWay = keyof typeof SANDBOXES;

const RESTRICTIONS = { landlock: landlockWords, 'sandbox-exec': sandboxExecWords } as const;

/** Ways to keep a command from the target on this machine. */
export type Sandboxing =
  | { readonly kind: 'sandboxed'; readonly by: SandboxWay }
  /** TCP is closed but for some ports; `reason`: why there is no sandbox. */
  | {
      readonly kind: 'restricted';
      readonly by: Restriction;
      /** It can signal no process outside either, and connect to no abstract Unix socket. */
      readonly scoped: boolean;
      readonly reason: string;
    }
  | { readonly kind: 'watched'; readonly reason: string };

/** The addresses and sockets that replace the target's inside. */
export type InPlaceOfTarget = Pick<SandboxParts, 'addresses' | 'replaced'>;

const NOTHING_IN_PLACE: InPlaceOfTarget = { addresses: [], replaced: [] };
const NOTHING_ALLOWED: AllowedPlaces = { relays: [], sockets: [] };

/** Tries the ways to a sandbox and then the restrictions, each by a program that does nothing (some 20 ms). */
export async function trySandbox(
  settings: ConnectionSettings,
  allow = NOTHING_ALLOWED,
  readOnly: readonly string[] = [],
): Promise<Sandboxing> {
  const failures: string[] = [];
  if (process.platform === 'linux') {
    const parts = await partsOf(allow, settings, readOnly, NOTHING_IN_PLACE);
    for (const by of ['bubblewrap', 'unshare'] as const) {
      const words = SANDBOXES[by](parts);
      const failure =
        words === undefined
          ? 'it is not installed (or setpriv is not)'
          : await trialFailure([...words, '/bin/sh', '-c', ':']);
      if (failure === null) return { kind: 'sandboxed', by };
      failures.push(`${by}: ${failure}`);
    }
  } else failures.push(`namespaces: there are none on ${process.platform}`);
  const reason = failures.join('; ');
  const by = process.platform === 'darwin' ? 'sandbox-exec' : 'landlock';
  const tried = await tryRestriction(by, settings, allow);
  return typeof tried === 'string'
    ? { kind: 'watched', reason: `${reason}; ${by}: ${tried}` }
    : { kind: 'restricted', by, ...tried, reason };
}

/** The kernel's first version of Landlock with scopes. */
const SCOPING_ABI = 6;

async function tryRestriction(
  by: Restriction,
  { hosts }: ConnectionSettings,
  { relays }: AllowedPlaces,
): Promise<{ readonly scoped: boolean } | string> {
  const ports = relays.map(({ port }) => port);
  const shared = hosts.find(({ port }) => ports.includes(port));
  if (shared) return `it goes by port, and --permit names port ${shared.port}, which is the target's`;
  const words = RESTRICTIONS[by]([ANY_PORT, ...ports]);
  if (typeof words === 'string') return words;
  const [program = '', ...args] = by === 'landlock' ? words : [...words, '/bin/sh', '-c', ':'];
  try {
    const { stdout } = await execute(program, args, { timeout: PROBE_MS, env: { LC_ALL: 'C' } });
    return { scoped: Number(stdout) >= SCOPING_ABI };
  } catch (error) {
    return failureIn(error);
  }
}

const ANY_PORT = 1;

/** The words before a program that run it in the sandbox, as the machine's sockets are now; a string says why there are none. */
export async function sandboxWords(
  by: SandboxWay,
  allow: AllowedPlaces,
  settings: ConnectionSettings,
  readOnly: readonly string[],
  inPlace: InPlaceOfTarget,
): Promise<readonly string[] | string> {
  return SANDBOXES[by](await partsOf(allow, settings, readOnly, inPlace)) ?? `${by} is no longer installed`;
}

/** The words before a program that let it connect over TCP to these ports alone. @throws Error */
export function restrictedWords(by: Restriction, ports: readonly number[]): readonly string[] {
  const words = RESTRICTIONS[by](ports);
  if (typeof words === 'string') throw new Error(`${by}: ${words}`);
  return words;
}

async function partsOf(
  allow: AllowedPlaces,
  settings: ConnectionSettings,
  readOnly: readonly string[],
  inPlace: InPlaceOfTarget,
): Promise<SandboxParts> {
  const names = allow.relays.filter(({ host, inside }) => host !== inside && host !== 'localhost');
  const lines = names.map(({ host, inside }) => `${inside} ${host}`);
  const hosts = names.length === 0 ? null : [...new Set(lines), hostsWithout(names)].join('\n');
  const visible = [...allow.sockets, ...inPlace.replaced.map(({ source }) => source)];
  return { covered: await pathsToCover(visible, socketPathsOf(settings)), readOnly, hosts, ...inPlace };
}

/** Reads /etc/hosts without some names: a name has all the addresses that lines give it. */
function hostsWithout(names: readonly { readonly host: string }[]): string {
  const unwanted = new Set(names.map(({ host }) => host));
  const lines = readFileSync('/etc/hosts', 'utf8').split('\n');
  return lines
    .map((line) => line.replace(/\S+/g, (word) => (unwanted.has(word.toLowerCase()) ? '' : word)))
    .join('\n');
}

/** Runs a program that should do nothing. @returns what it said if it failed */
export async function trialFailure([program = '', ...args]: readonly string[]): Promise<string | null> {
  try {
    await execute(program, args, { timeout: PROBE_MS, env: {} });
    return null;
  } catch (error) {
    return failureIn(error);
  }
}

function failureIn(error: unknown): string {
  const said = error instanceof Error && 'stderr' in error ? String(error.stderr).trim() : '';
  return said.split('\n')[0] || messageOf(error);
}
