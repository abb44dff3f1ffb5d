import type { CloneContext, Ground } from '../clone/method.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import type { Audit } from '../target/audit.ts';
import { inspectTarget } from '../target/inspect.ts';
import type { Surroundings } from '../target/surroundings.ts';
import { parseSettings } from '../target/url.ts';
import { claimRun, lostControl } from '../upkeep/claim.ts';
import type { RunId } from '../upkeep/run-id.ts';
import type { RehearseOptions } from './asked.ts';

/** The servers beside the target's that the user named: one to make the clone on, one to copy from. */
export async function otherServers(
  { rehearsalUrl, source }: RehearseOptions,
  run: RunId,
  around: Surroundings,
  { scope, stop, audit }: { scope: Scope; stop: Stop; audit: Audit },
): Promise<Pick<CloneContext, 'rehearsal' | 'source'>> {
  const { signal } = stop;
  const inspect = (url: string, flag: string, standbyToo: boolean) =>
    inspectTarget(parseSettings(url, around), flag, { audit, signal, standbyToo });
  const ground = async (url: string): Promise<Ground> => {
    const target = await inspect(url, '--rehearsal-url', false);
    const { control, lockDatabaseOid } = await claimRun(target, scope, { run, audit, signal });
    control.onLost((reason) => stop.now(lostControl(reason)));
    return { target, control, lockDatabaseOid };
  };
  return {
    ...(rehearsalUrl === undefined ? {} : { rehearsal: await ground(rehearsalUrl) }),
    ...(source === undefined ? {} : { source: await inspect(source, '--source', true) }),
  };
}
