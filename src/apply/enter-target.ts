import { resolveCommand } from '../command/resolve.ts';
import { findLogins } from '../command/rewrite.ts';
import { inspectTarget } from '../database/inspect.ts';
import { locateTarget } from '../database/locate.ts';
import { comparer } from '../database/same-target.ts';
import { inPhase } from '../events.ts';
import { lostControl } from '../ownership/control-session.ts';
import { openSession } from '../postgres/connection/connect.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import { claimOrEnd } from '../rehearsal/clone-context.ts';
import type { RehearsalPlan } from '../rehearsal/plan.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';

/** The target of an apply, with a session `inside`. If that is lost, the run ends. */
export type EnteredTarget = Awaited<ReturnType<typeof enterTarget>>;

/** Connects to the target. @throws SafemigrateError what a rehearsal throws if it cannot connect. */
export async function enterTarget(scope: Scope, stop: Stop, plan: RehearsalPlan) {
  const { command, emit, audit } = plan;
  const { signal } = stop;
  const environment = readEnvironment(command.env, command.folder);
  const located = locateTarget(plan.target, environment);
  resolveCommand(command.argv, { path: environment.env.PATH ?? '', folder: environment.folder });
  const target = await inPhase(emit, 'connect', () =>
    inspectTarget(located.settings, located.source, { audit, signal }),
  );
  return inPhase(emit, 'inspect', async () => {
    const { run } = await claimOrEnd(target, { scope, stop }, audit);
    const inside = await scope.own(
      'session in the target',
      () =>
        openSession(target.settings, {
          purpose: 'apply',
          run,
          audit,
          signal,
          readOnly: true,
          statementTimeoutMs: 0,
        }),
      async (session) => session?.close(),
    );
    inside.onLost((reason) => stop.now(lostControl(reason)));
    const urlVariable = plan.target.urlEnv;
    const input = { argv: command.argv, environment, target: target.settings, urlVariable, databases: [] };
    const logins = await findLogins(input, comparer(target.settings, signal));
    return { target, run, logins, input, inside };
  });
}
