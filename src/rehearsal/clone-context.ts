import type { CloneOptions } from '../clone/clone-settings.ts';
import type { CloneContext, CloneServer } from '../clone/method.ts';
import { inspectTarget, type Visit } from '../database/inspect.ts';
import type { Located } from '../database/locate.ts';
import type { Target } from '../database/target.ts';
import { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import { type Claim, claimRun, lostControl } from '../ownership/control-session.ts';
import { visitOrReopen } from '../ownership/reopen.ts';
import { newRunId, type RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { parseSettings } from '../postgres/connection/connection-url.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import type { Stop } from '../stop.ts';
import type { RehearsalPlan, RunPlan } from './plan.ts';
import type { Lifetime } from './with-scope.ts';

/** Takes the run's lock on a server. Without it nothing shows that the clone is in use, so that the run ends if it is lost. */
export async function claimOrEnd(
  target: Target,
  { scope, stop }: Lifetime,
  audit: Audit,
  run: RunId = newRunId(),
): Promise<Claim> {
  const claim = await claimRun(target, scope, { run, audit, signal: stop.signal });
  claim.control.onLost((reason) => stop.now(lostControl(reason)));
  return claim;
}

/**
 * Connects to the target, and closes the session once it was used: it would be in the way of the clone. A target that a killed
 * swap has left closed is reopened.
 */
export async function visitFirst<T>(
  run: RunId,
  { settings, source }: Located,
  { signal }: Stop,
  { emit, audit }: RunPlan,
  inspect: (visit: Visit) => Promise<T>,
): Promise<T> {
  const say = (message: string) => emit({ type: 'notice', message });
  const visit = await inPhase(emit, 'connect', () =>
    visitOrReopen(settings, source, { run, audit, signal }, say),
  );
  return inPhase(emit, 'inspect', async () => {
    try {
      return await inspect(visit);
    } finally {
      await visit.session.close();
    }
  });
}

/**
 * Claims the run on the target's server, and on the others that the plan names.
 * @throws SafemigrateError as claimRun() and otherServers() do.
 */
export async function makeCloneContext(
  target: Target,
  environment: Environment,
  life: Lifetime,
  { emit, audit, clone }: Pick<RehearsalPlan, 'emit' | 'audit' | 'clone'>,
  run?: RunId,
): Promise<CloneContext> {
  const { stop } = life;
  const claim = await claimOrEnd(target, life, audit, run);
  return {
    target,
    ...claim,
    ...(await otherServers(clone, target, claim.run, environment, life, audit)),
    options: clone,
    emit,
    signal: stop.signal,
    audit,
    fail: (reason) => stop.now(reason),
  };
}

/**
 * Inspects the servers beside the target's that the user named: one to make the clone on, one to copy from.
 * @throws SafemigrateError as inspectTarget() does; `SERVER` where the one to copy from is no standby of the target.
 */
export async function otherServers(
  { rehearsalUrl, source }: Pick<CloneOptions, 'rehearsalUrl' | 'source'>,
  target: Target,
  run: RunId,
  environment: Environment,
  life: Lifetime,
  audit: Audit,
): Promise<Pick<CloneContext, 'rehearsal' | 'source'>> {
  const { signal } = life.stop;
  const inspect = (url: string, flag: string, standbyToo: boolean) =>
    inspectTarget(parseSettings(url, environment), flag, { audit, signal, standbyToo });
  const ground = async (url: string): Promise<CloneServer> => {
    const target = await inspect(url, '--clone-to', false);
    const { control, lockDatabaseOid } = await claimOrEnd(target, life, audit, run);
    return { target, control, lockDatabaseOid };
  };
  const standby = async (url: string): Promise<Target> => {
    const found = await inspect(url, '--clone-from', true);
    const strange = noStandbyOf(target, found);
    if (strange === undefined) return found;
    throw new SafemigrateError(
      'SERVER',
      `The server that --clone-from names is no standby of the target: ${strange}.`,
      {
        hint: 'The target was not touched. Name a physical standby of it with --clone-from, or leave it out.',
      },
    );
  };
  return {
    ...(rehearsalUrl === null ? {} : { rehearsal: await ground(rehearsalUrl) }),
    ...(source === null ? {} : { source: await standby(source) }),
  };
}

/** Says why a server is no standby of the target. A clone of what only looks like the target would be judged as if it were one. */
function noStandbyOf(target: Target, { server }: Target): string | undefined {
  const [one, other] = [target.server.systemIdentifier, server.systemIdentifier];
  if (one !== null && other !== null && one !== other) return 'their system identifiers differ';
  return server.inRecovery ? undefined : 'it is a primary itself';
}
