import type { CloneOptions } from '../clone/clone-settings.ts';
import type { CloneContext, CloneServer } from '../clone/method.ts';
import { inspectTarget } from '../database/inspect.ts';
import type { Target } from '../database/target.ts';
import { SafemigrateError } from '../errors.ts';
import { claimRun, lostControl } from '../ownership/control-session.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { parseSettings } from '../postgres/connection/connection-url.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';

/**
 * The servers beside the target's that the user named: one to make the clone on, one to copy from.
 * @throws SafemigrateError as inspectTarget() does; `SERVER` where the one to copy from is no standby of the target.
 */
export async function otherServers(
  { rehearsalUrl, source }: Pick<CloneOptions, 'rehearsalUrl' | 'source'>,
  target: Target,
  run: RunId,
  environment: Environment,
  { scope, stop, audit }: { scope: Scope; stop: Stop; audit: Audit },
): Promise<Pick<CloneContext, 'rehearsal' | 'source'>> {
  const { signal } = stop;
  const inspect = (url: string, flag: string, standbyToo: boolean) =>
    inspectTarget(parseSettings(url, environment), flag, { audit, signal, standbyToo });
  const ground = async (url: string): Promise<CloneServer> => {
    const target = await inspect(url, '--clone-to', false);
    const { control, lockDatabaseOid } = await claimRun(target, scope, { run, audit, signal });
    control.onLost((reason) => stop.now(lostControl(reason)));
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

/** A clone of what only looks like the target would be judged as if it were one. */
function noStandbyOf(target: Target, { server }: Target): string | undefined {
  const [one, other] = [target.server.systemIdentifier, server.systemIdentifier];
  if (one !== null && other !== null && one !== other) return 'their system identifiers differ';
  return server.inRecovery ? undefined : 'it is a primary itself';
}
