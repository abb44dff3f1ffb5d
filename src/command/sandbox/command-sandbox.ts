import { SafemigrateError } from '../../errors.ts';
import type { CommandIsolation } from '../../model/report.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { postmasterOf, socketInodes } from '../process-sockets.ts';
import { type AllowedPlaces, allowedPlaceText } from './allowed-places.ts';
import { coverWords } from './sandbox-words.ts';
import { serverFolders } from './server-folders.ts';
import { refuseTarget } from './target-addresses.ts';
import {
  type InPlaceOfTarget,
  type Sandboxing,
  type SandboxWay,
  sandboxWords,
  trialFailure,
  trySandbox,
} from './try-sandbox.ts';
import { listeningUnixSockets, realSocket, socketPathsOf } from './unix-sockets.ts';

export interface SandboxPlan {
  /** `auto`: the strictest way that works here. `required`: the whole sandbox, or no run. `off`: the command is watched. */
  readonly mode: 'auto' | 'required' | 'off';
  readonly allow: AllowedPlaces;
  /** Why the command can only be watched, whatever works here; null: it can be sandboxed. */
  readonly onlyWatched: string | null;
  /** A sandboxed command finds the clone at the target's own address; else its words that name the target are rewritten. */
  readonly byAddress: boolean;
}

/** The command has a private network. */
export interface Sandboxed {
  readonly kind: 'sandboxed';
  readonly by: SandboxWay;
  readonly settings: ConnectionSettings;
  /** Paths of the target's Unix sockets. */
  readonly sockets: readonly string[];
  readonly byAddress: boolean;
  /** The target's server speaks TLS: so does the proxy at its address. */
  readonly speaksTls: boolean;
  /** Files of authorities that clients may trust: inside, they have that of the run as well. */
  readonly trustFiles: readonly string[];
}

/** Barrier between the command and the target, besides the proxy. */
export type CommandSandbox = (
  | Sandboxed
  | ((
      | Extract<Sandboxing, { kind: 'restricted' }>
      | { readonly kind: 'watched'; readonly reason: string | null }
    ) & {
      /** The target's Unix sockets that are hidden from the command. */
      readonly covered: readonly string[];
    })
) & {
  /** Places of the target's server that the command cannot write to. */
  readonly readOnly: readonly string[];
  readonly allow: AllowedPlaces;
};

/** The command is on its own. */
export const UNWATCHED = {
  kind: 'watched',
  reason: null,
  covered: [],
  readOnly: [],
  allow: { relays: [], sockets: [] },
} as const satisfies CommandSandbox;

/** @throws SafemigrateError `SANDBOX` if the command cannot be sandboxed; `CONFIGURATION` if the target is allowed. */
export async function requireSandbox(
  { plan: { allow }, settings }: Pick<Parameters<typeof chooseSandbox>[0], 'plan' | 'settings'>,
  readOnly: readonly string[] = [],
): Promise<Extract<Sandboxing, { kind: 'sandboxed' }>> {
  await refuseTarget(allow, settings);
  const tried = await trySandbox(settings, allow, readOnly);
  if (tried.kind === 'sandboxed') return tried;
  throw unavailable(tried.reason);
}

/**
 * Finds the strictest of the ways that work here, or the one that is required.
 * @param asked.mayBeWatched decides, before anything was made, whether a command may run that can only be watched; it throws if not.
 * @param asked.needsSockets the command may use the target's server for something else.
 * @param asked.control a session on the target's server.
 * @param asked.workingFolder of the command.
 * @throws SafemigrateError as requireSandbox()
 */
export async function chooseSandbox({
  plan,
  settings,
  mayBeWatched,
  needsSockets,
  control,
  workingFolder,
  trustFiles,
}: {
  readonly plan: SandboxPlan;
  readonly settings: ConnectionSettings;
  readonly mayBeWatched: (reason: string) => void;
  readonly needsSockets: boolean;
  readonly control: Session;
  readonly workingFolder: string;
  readonly trustFiles: readonly string[];
}): Promise<CommandSandbox> {
  const { mode, allow, onlyWatched, byAddress } = plan;
  if (mode === 'off') return UNWATCHED;
  const places = await serverFolders(control, workingFolder);
  await refuseTarget(allow, settings);
  const found: Sandboxing =
    mode === 'required'
      ? await requireSandbox({ plan, settings }, places)
      : onlyWatched === null
        ? await trySandbox(settings, allow, places)
        : { kind: 'watched', reason: onlyWatched };
  if (found.kind === 'watched') mayBeWatched(found.reason);
  const sockets = found.kind === 'watched' && needsSockets ? [] : await socketsOfTarget(settings, control);
  if (found.kind === 'sandboxed') {
    const speaksTls = await offersTls(settings, control);
    return { ...found, sockets, byAddress, speaksTls, trustFiles, readOnly: places, allow, settings };
  }
  return { ...found, allow, ...(await covers({ covered: sockets, readOnly: places })) };
}

/** The words before a program that run it in the sandbox, as the machine's sockets are now. */
export async function wordsOf(
  { by, allow, settings, readOnly }: Extract<CommandSandbox, { kind: 'sandboxed' }>,
  inPlace: InPlaceOfTarget,
): Promise<readonly string[]> {
  const words = await sandboxWords(by, allow, settings, readOnly, inPlace);
  if (typeof words === 'string') throw unavailable(words);
  return words;
}

function unavailable(why: string): SafemigrateError {
  return new SafemigrateError('SANDBOX', `The command cannot be sandboxed here: ${why}.`, {
    hint:
      'Install bubblewrap (apt-get install bubblewrap), permit user namespaces, or run as root; --sandbox auto takes the next best ' +
      'way instead. Nothing was touched.',
  });
}

/** Says whether clients get TLS at the target. A pooler before it may have a certificate although the server has none. */
async function offersTls({ sslmode }: ConnectionSettings, control: Session): Promise<boolean> {
  if (['require', 'verify-ca', 'verify-full'].includes(sslmode)) return true;
  const [row] = await control.query<{ on: boolean }>("SELECT pg_catalog.current_setting('ssl') = 'on' AS on");
  return row?.on === true;
}

/** Lists the target's Unix sockets, if they are proved to be the target's. */
async function socketsOfTarget(settings: ConnectionSettings, control: Session): Promise<string[]> {
  if (process.platform !== 'linux') return [];
  const paths = [...socketPathsOf(settings), ...(await socketsOfServer(control))];
  return [...new Set(paths.flatMap((file) => realSocket(file) ?? []))];
}

/** Returns what can be hidden and protected without a sandbox: all of it or nothing, and only as root. */
async function covers(wanted: Parameters<typeof coverWords>[0]): Promise<typeof wanted> {
  const nothing = { covered: [], readOnly: [] };
  const isNeeded = wanted.covered.length + wanted.readOnly.length > 0;
  const words = isNeeded && process.getuid?.() === 0 ? coverWords(wanted) : undefined;
  const isPossible = words !== undefined && (await trialFailure([...words, '/bin/sh', '-c', ':'])) === null;
  return isPossible ? wanted : nothing;
}

/** Finds the Unix sockets of a server on this machine: its postmaster listens on them. */
async function socketsOfServer(control: Session): Promise<string[]> {
  const postmaster = await postmasterOf(control);
  if (postmaster === undefined) return [];
  const inodes = socketInodes(postmaster) ?? new Set();
  return (await listeningUnixSockets()).filter(({ inode }) => inodes.has(inode)).map((each) => each.path);
}

/** Builds the report's part about it. */
export function describeIsolation(sandbox: CommandSandbox): CommandIsolation {
  const { relays, sockets } = sandbox.allow;
  const allowed = [...relays.map(allowedPlaceText), ...sockets];
  switch (sandbox.kind) {
    case 'sandboxed':
      return { kind: 'sandboxed', by: sandbox.by, scoped: true, covered: [], allowed, reason: null };
    case 'restricted': {
      const { kind, by, scoped, covered, reason } = sandbox;
      return { kind, by, scoped, covered: [...covered], allowed, reason };
    }
    case 'watched': {
      const { kind, covered, reason } = sandbox;
      return { kind, by: null, scoped: false, covered: [...covered], allowed: [], reason };
    }
  }
}
