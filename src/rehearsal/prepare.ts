import { readScripts, type Script } from '../clone/after-clone.ts';
import { type Choice, chooseMethod } from '../clone/choose.ts';
import type { CloneContext } from '../clone/method.ts';
import { visitsOf } from '../clone/turns.ts';
import { resolveCommand } from '../command/resolve.ts';
import { type CommandInput, findLogins, type Logins } from '../command/rewrite.ts';
import { freeDiskBytes } from '../database/data-folders.ts';
import { DEFAULT_URL_VARIABLE, locateTarget } from '../database/locate.ts';
import { comparer } from '../database/same-target.ts';
import type { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import { readTargetState, type TargetState } from '../observe/target-watch.ts';
import { claimOver, lostControl, openControl } from '../ownership/control-session.ts';
import { visitOrReopen } from '../ownership/reopen.ts';
import { newRunId } from '../ownership/run-id.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import type { Session } from '../postgres/connection/session.ts';
import { requireListening } from '../proxy/proxy.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import { restoreFile } from './from-file.ts';
import { otherServers } from './rehearsal-server.ts';
import { askTarget, type Questions, readGiven } from './requested-checks.ts';
import type { ExtraCommand } from './run-again.ts';
import type { RehearseOptions } from './run-options.ts';
import { ignore, limitsOf, wishesOf } from './slices.ts';

export interface Prepared {
  readonly input: CommandInput;
  readonly logins: Logins;
  /** The way back, where one was given. */
  readonly down: ExtraCommand | null;
  readonly questions: Questions;
  /** To be run on the clone before it is looked at. */
  readonly afterClone: readonly Script[];
  readonly stateBefore: TargetState;
  /** Transactions that we have made in the target by now, to look at it. */
  readonly ours: () => number;
  /** Where the target's files lie, before anything was made; null where that cannot be seen from here. */
  readonly freeBytes: number | null;
  readonly context: CloneContext;
  readonly choice: Choice;
  /** Of the target, with every host that the user named. */
  readonly settings: ConnectionSettings;
}

/**
 * Everything that comes before the first statement that changes anything on the server.
 * @param meanwhile called while there is nothing to do but wait for the server.
 */
export async function prepare(
  scope: Scope,
  stop: Stop,
  options: RehearseOptions,
  meanwhile: () => void = () => {},
): Promise<Prepared> {
  const { emit = ignore, audit = ignore } = options;
  const { signal } = stop;
  const outside = readEnvironment(options.env ?? process.env, options.folder ?? process.cwd());
  const named = options.from === undefined ? locateTarget(options, outside) : undefined;
  resolveCommand(options.command, { path: outside.env.PATH ?? '', folder: outside.folder });
  if (options.proxyListen !== undefined) await requireListening(options.proxyListen);
  const given = await readGiven(options);
  const afterClone = readScripts(options.afterClone ?? [], outside.folder);
  const { located, around, caveats } = named
    ? { located: named, around: outside, caveats: [] }
    : await restoreFile(scope, stop, options, outside);
  const run = newRunId();
  // To connect takes longer than most of what is asked: so one session is opened while the other one asks.
  let opening: Promise<Session> | undefined;
  const onLogin = (settings: ConnectionSettings) => {
    opening = openControl({ settings, database: { name: settings.database } }, scope, { run, audit, signal });
    // A failure is told where it is waited for.
    opening.catch(() => {});
  };
  const { target, session } = await inPhase(emit, 'connect', () =>
    visitOrReopen(located.settings, located.source, { run, audit, signal, onLogin }, (message) => {
      emit({ type: 'notice', message });
    }),
  );
  const inspecting = async (control: Session) => {
    const urlVariable = options.urlEnv ?? DEFAULT_URL_VARIABLE;
    const input = { argv: options.command, around, target: target.settings, urlVariable };
    const claim = await claimOver(control, run);
    claim.control.onLost((reason) => stop.now(lostControl(reason)));
    const context = {
      target,
      ...claim,
      ...(await otherServers(options, target, run, around, { scope, stop, audit })),
      limits: limitsOf(options),
      wishes: wishesOf(options),
      emit,
      signal,
      audit,
      fail: (reason: SafemigrateError) => stop.now(reason),
    };
    const compare = comparer(target.settings, signal);
    const logins = await findLogins(input, compare);
    const back = options.down === undefined ? null : { ...input, argv: ['sh', '-c', options.down] };
    const down = back && { input: back, logins: await findLogins(back, compare) };
    // Nobody is at work on a server that was made for this run.
    const standard = named ? 'auto' : 'template';
    const choosing = chooseMethod(context, options.clone ?? standard);
    const look = async () => ({
      asked: await askTarget(session, given, target.database.oid, options),
      stateBefore: await readTargetState(context, { session, others: choosing }),
      // Before the clone takes any of it; of a server that was made for this run it would say nothing.
      freeBytes: named ? await freeDiskBytes(session, target) : null,
    });
    // The target takes longer to be read than this.
    choosing.then(meanwhile, () => {});
    const [choice, { asked, stateBefore, freeBytes }] = await bothOf(choosing, look());
    const questions = { ...asked, caveats: [...caveats, ...asked.caveats] };
    return {
      input,
      logins,
      down,
      questions,
      afterClone,
      stateBefore,
      ours: () => session.transactions + visitsOf(context).transactions,
      freeBytes,
      context,
      choice,
      settings: located.settings,
    };
  };
  return inPhase(emit, 'inspect', async () => {
    try {
      return await inspecting(await (opening as Promise<Session>));
    } finally {
      // It would be in the way of the clone.
      await session.close();
    }
  });
}

/** Waits for both to end, so that neither goes on after the other has failed; of two failures the first one's is told. */
async function bothOf<One, Other>(one: Promise<One>, other: Promise<Other>): Promise<[One, Other]> {
  await Promise.allSettled([one, other]);
  return [await one, await other];
}
