import { resolveCommand } from '../command/resolve.ts';
import { type CommandInput, findLogins, type Logins } from '../command/rewrite.ts';
import { inspectTarget } from '../database/inspect.ts';
import { DEFAULT_URL_VARIABLE, locateTarget } from '../database/locate.ts';
import { comparer } from '../database/same-target.ts';
import type { Target } from '../database/target.ts';
import { inPhase } from '../events.ts';
import { claimRun, lostControl } from '../ownership/control-session.ts';
import type { RunId } from '../ownership/run-id.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { RehearseOptions } from '../rehearsal/run-options.ts';
import { ignore } from '../rehearsal/slices.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import { takeApplyLock } from './apply-lock.ts';

/** The target, for as long as the apply lasts. */
export interface Entered {
  readonly target: Target;
  readonly run: RunId;
  readonly logins: Logins;
  readonly input: CommandInput;
  /** A session in the target that holds its turn; with its end the run ends. */
  readonly turn: Session;
}

/**
 * Connects, and takes the target's turn: from here on no other apply begins.
 * @throws SafemigrateError `REFUSED` where another one is at work, and as a rehearsal's beginning.
 */
export async function enterTarget(scope: Scope, stop: Stop, options: RehearseOptions): Promise<Entered> {
  const { emit = ignore, audit = ignore } = options;
  const { signal } = stop;
  const around = readEnvironment(options.env ?? process.env, options.folder ?? process.cwd());
  const located = locateTarget(options, around);
  resolveCommand(options.command, { path: around.env.PATH ?? '', folder: around.folder });
  const target = await inPhase(emit, 'connect', () =>
    inspectTarget(located.settings, located.source, { audit, signal }),
  );
  return inPhase(emit, 'inspect', async () => {
    const { run, control } = await claimRun(target, scope, { audit, signal });
    const turn = await scope.own(
      'turn of the target',
      () =>
        openSession(target.settings, {
          ...{ purpose: 'apply', run, audit, signal, readOnly: true, statementTimeoutMs: 0 },
        }),
      async (session) => session?.close(),
    );
    await takeApplyLock(turn, target.database.oid);
    for (const session of [control, turn]) session.onLost((reason) => stop.now(lostControl(reason)));
    const urlVariable = options.urlEnv ?? DEFAULT_URL_VARIABLE;
    const input = { argv: options.command, around, target: target.settings, urlVariable };
    const logins = await findLogins(input, comparer(target.settings, signal));
    return { target, run, logins, input, turn };
  });
}
