import { setTimeout as delay } from 'node:timers/promises';
import { SafemigrateError } from '../../errors.ts';
import type { CloneService, ServiceCli, ServiceClone, Source } from './clone-service.ts';
import { cliOf } from './service-cli.ts';
import { parseCloneName } from './service-name.ts';

const TRIES = 3;
const TRY_AGAIN_MS = 1_000;
/** For each call that lists or removes. */
const CALL_TIMEOUT_MS = 10 * 60_000;

/** The command line for cleaning, which no signal of the run ends. */
export function cleaningCli(service: CloneService): ServiceCli {
  return cliOf(service, { timeoutMs: CALL_TIMEOUT_MS });
}

/**
 * Removes the clone with this name, and nothing else: the name must be one that safemigrate gives, exactly one thing may have it,
 * and the service must know no reason against it.
 * @returns false if there is none (any more).
 * @throws SafemigrateError `NOT_OURS` if a check fails; `CLONE` if the service refuses.
 */
export async function destroyClone(service: CloneService, source: Source, name: string): Promise<boolean> {
  const cli = cleaningCli(service);
  for (let tries = 1; ; tries++) {
    try {
      const clone = await findOwnClone(service, cli, source, name, 'removed');
      if (clone === undefined || clone.state === 'deleting') return false;
      await service.destroy(cli, clone, source);
      return true;
    } catch (error) {
      const isFinal = error instanceof SafemigrateError && error.code === 'NOT_OURS';
      if (isFinal || tries === TRIES) throw error;
      await delay(TRY_AGAIN_MS);
    }
  }
}

/**
 * Finds the clone with this name, and checks that it is ours.
 * @param done the change that it is found for, for a message.
 * @returns undefined if there is none.
 * @throws SafemigrateError `NOT_OURS` if a check fails.
 */
export async function findOwnClone(
  service: CloneService,
  cli: ServiceCli,
  source: Source,
  name: string,
  done: 'removed' | 'upgraded',
): Promise<ServiceClone | undefined> {
  const found = (await service.list(cli, source)).filter((each) => each.name === name);
  const doubt = doubtOf(found, name);
  if (doubt === null) return found[0];
  throw new SafemigrateError('NOT_OURS', `${name} at ${service.title} was not ${done}: ${doubt}.`, {
    hint: `Look at it yourself, with ${service.program}.`,
  });
}

function doubtOf(found: readonly ServiceClone[], name: string): string | null {
  if (parseCloneName(name) === null) return 'its name is not one that safemigrate gives';
  if (found.length > 1) return `${found.length} things have this name`;
  return found[0]?.doubt ?? null;
}
