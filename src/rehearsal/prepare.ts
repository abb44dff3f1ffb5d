import { readScripts, type Script } from '../clone/after-clone.ts';
import { type Choice, chooseMethod } from '../clone/choose.ts';
import type { CloneContext } from '../clone/method.ts';
import { resolveCommand } from '../command/resolve.ts';
import { findLogins } from '../command/rewrite.ts';
import { freeDiskBytes } from '../database/data-folders.ts';
import type { Visit } from '../database/inspect.ts';
import { DEFAULT_URL_VARIABLE, locateTarget } from '../database/locate.ts';
import { comparer } from '../database/same-target.ts';
import type { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import { readTargetState, type TargetState } from '../observe/target-state.ts';
import { claimRun, lostControl } from '../ownership/control-session.ts';
import { visitOrReopen } from '../ownership/reopen.ts';
import { newRunId, type RunId } from '../ownership/run-id.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import { requireListening } from '../proxy/proxy.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import { type FileTarget, restoreFile } from './from-file.ts';
import { otherServers } from './rehearsal-server.ts';
import { askTarget, type Given, type Questions, readGiven } from './requested-checks.ts';
import type { LocatedCommand } from './run-on-clone.ts';
import type { RehearseOptions } from './run-options.ts';
import { ignore, limitsOf, wishesOf } from './slices.ts';

/** All that a rehearsal knows before the first statement that changes anything on the server. */
export interface RehearsalContext {
  /** What a clone method needs. */
  readonly context: CloneContext;
  /** The target's, with every host that the user named. */
  readonly settings: ConnectionSettings;
  /** The migration command. */
  readonly command: LocatedCommand;
  /** The command that undoes the migration; null if none was given. */
  readonly down: LocatedCommand | null;
  readonly questions: Questions;
  /** To be run on the clone before it is read. */
  readonly afterClone: readonly Script[];
  readonly choice: Choice;
  readonly stateBefore: TargetState;
  /** Where the target's files lie, before anything was made; null if that cannot be seen from here. */
  readonly freeBytes: number | null;
}

/** What the options and files say, before any server was reached. */
interface Request {
  readonly place: FileTarget;
  readonly given: Given;
  readonly afterClone: readonly Script[];
  readonly run: RunId;
}

/** Connects, inspects, claims, finds the command's logins, chooses how to clone, and reads the target: in this order. */
export async function prepare(scope: Scope, stop: Stop, options: RehearseOptions): Promise<RehearsalContext> {
  const { emit = ignore } = options;
  const request = await readRequest(scope, stop, options);
  const visit = await inPhase(emit, 'connect', () => connect(request, stop, options));
  return inPhase(emit, 'inspect', async () => {
    try {
      return await inspect(request, visit, { scope, stop }, options);
    } finally {
      // It would be in the way of the clone.
      await visit.session.close();
    }
  });
}

async function readRequest(scope: Scope, stop: Stop, options: RehearseOptions): Promise<Request> {
  const outside = readEnvironment(options.env ?? process.env, options.folder ?? process.cwd());
  const located = options.from === undefined ? locateTarget(options, outside) : undefined;
  resolveCommand(options.command, { path: outside.env.PATH ?? '', folder: outside.folder });
  if (options.proxyListen !== undefined) await requireListening(options.proxyListen);
  const given = await readGiven(options);
  const afterClone = readScripts(options.afterClone ?? [], outside.folder);
  const place = located
    ? { located, around: outside, caveats: [] }
    : await restoreFile(scope, stop, options, outside);
  return { place, given, afterClone, run: newRunId() };
}

function connect({ place, run }: Request, { signal }: Stop, options: RehearseOptions): Promise<Visit> {
  const { emit = ignore, audit = ignore } = options;
  const { settings, source } = place.located;
  return visitOrReopen(settings, source, { run, audit, signal }, (message) =>
    emit({ type: 'notice', message }),
  );
}

async function inspect(
  { place, given, afterClone, run }: Request,
  { target, session }: Visit,
  { scope, stop }: { scope: Scope; stop: Stop },
  options: RehearseOptions,
): Promise<RehearsalContext> {
  const { emit = ignore, audit = ignore } = options;
  const { signal } = stop;
  const { located, around } = place;
  // Nobody is at work on a server that was made for this run, and its disk says nothing.
  const isRestored = options.from !== undefined;
  const claim = await claimRun(target, scope, { run, audit, signal });
  claim.control.onLost((reason) => stop.now(lostControl(reason)));
  const context: CloneContext = {
    ...{ target, ...claim, emit, signal, audit },
    ...(await otherServers(options, target, run, around, { scope, stop, audit })),
    limits: limitsOf(options),
    wishes: wishesOf(options),
    fail: (reason: SafemigrateError) => stop.now(reason),
  };
  const compare = comparer(target.settings, signal);
  const urlVariable = options.urlEnv ?? DEFAULT_URL_VARIABLE;
  const input = { argv: options.command, around, target: target.settings, urlVariable };
  const command = { input, logins: await findLogins(input, compare) };
  const back = options.down === undefined ? null : { ...input, argv: ['sh', '-c', options.down] };
  const down = back && { input: back, logins: await findLogins(back, compare) };
  const choice = await chooseMethod(context, options.clone ?? (isRestored ? 'template' : 'auto'));
  const asked = await askTarget(session, given, target.database.oid, options);
  const questions = { ...asked, caveats: [...place.caveats, ...asked.caveats] };
  const freeBytes = isRestored ? null : await freeDiskBytes(session, target);
  const stateBefore = await readTargetState(context, session);
  return {
    ...{ context, settings: located.settings, command, down, questions },
    ...{ afterClone, choice, stateBefore, freeBytes },
  };
}
