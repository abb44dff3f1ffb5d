import type { Login } from '../command/rewrite.ts';
import type { SafemigrateError } from '../errors.ts';
import type { Emit } from '../events.ts';
import { type CommandWatch, watchCommand } from '../observe/command-watch.ts';
import type { DuringSection } from '../report/model.ts';
import type { Scope } from '../scope.ts';
import type { Session } from '../target/session.ts';
import type { Target } from '../target/target.ts';
import type { RunId } from '../upkeep/run-id.ts';
import type { Observer } from '../wire/observed.ts';
import type { Rehearsed } from './rehearsed.ts';

/** How the command is guarded while it runs on the target. */
export interface DuringOptions {
  readonly listen?: string;
  readonly redact: boolean;
}

export interface GuardedParts {
  readonly target: Target;
  readonly run: RunId;
  /** What the command knows of the target; the first is the target's own login. */
  readonly logins: readonly Login[];
  readonly rehearsed: Rehearsed;
  readonly options: DuringOptions;
  readonly emit: Emit;
  /** Opens a session of ours on the target's server, outside the target where the role is let in there. */
  readonly connect: (purpose: string) => Promise<Session>;
  /** Told everything that the proxy sees. */
  readonly observer: Observer;
  /** Ends the command, as its time limit does; the reason is told in the report. */
  readonly abort: (reason: SafemigrateError) => void;
}

/** The proxy between the command and the target. */
export interface GuardedWatch extends CommandWatch {
  /** What was done to the command on its way; null where nothing watches. To be asked after end(). */
  happened(): DuringSection | null;
}

export async function guardedWire(scope: Scope, parts: GuardedParts): Promise<GuardedWatch> {
  const { target, logins, options, emit, connect, observer } = parts;
  const wire = await watchCommand(scope, {
    logins,
    clone: target.settings,
    sharesRoles: true,
    cloneOid: target.database.oid,
    guard: { before: () => 'run' },
    observe: 'sampled',
    // What they wrote is to be read from them first.
    redact: false,
    ...(options.listen === undefined ? {} : { listen: options.listen }),
    otherDatabase: () => true,
    connect,
    observer,
    emit,
  });
  return { ...wire, happened: () => null };
}
