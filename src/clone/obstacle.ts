import { SafemigrateError } from '../errors.ts';
import type { Assessment, CloneContext, Impossible } from './method.ts';

/** The reason why a method cannot make a clone here. */
export class CopyObstacle extends Error {
  override readonly name = 'Obstacle';
  /** An exact statement, command or option that would make it possible. */
  readonly enable: string | undefined;

  constructor(reason: string, enable?: string) {
    super(reason);
    this.enable = enable;
  }
}

/** Assesses a method; an obstacle is the result, too. */
export async function orImpossible(assess: () => Promise<Assessment>): Promise<Assessment> {
  try {
    return await assess();
  } catch (error) {
    if (!(error instanceof CopyObstacle)) throw error;
    const { message: reason, enable } = error;
    return { possible: false, reason, ...(enable === undefined ? {} : { enable }) };
  }
}

/**
 * Ends the run for an obstacle that the assessment could not see, or that has arisen since.
 * @throws SafemigrateError `CLONE`
 */
export async function refusing<T>(what: string, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof CopyObstacle)) throw error;
    throw new SafemigrateError('CLONE', `${what}: ${error.message}.`, {
      hint: error.enable ?? 'The target was not touched. Try again.',
      cause: error,
    });
  }
}

/** Lists what the clone must not have unless it is sandboxed: through these objects it could reach other systems. */
export function unwantedAccess({
  options,
  target,
}: Pick<CloneContext, 'options' | 'target'>): readonly string[] {
  return options.allowExternalAccess ? [] : target.database.externalAccess;
}

/** Refuses a clone whose server cannot be kept from reaching other systems. */
export function refuseUnsandboxed(
  where: string,
  objects: readonly string[],
  enable: string,
): Required<Impossible> {
  return {
    possible: false,
    reason: `${where} the clone could reach other systems, because the target has: ${objects.join(', ')}`,
    enable: `${enable}, or allow it with --permit external`,
  };
}

/** Refuses a clone inside the target's server, or on another one that is not sandboxed. @returns undefined if nothing is unwanted. */
export function refuseOnSharedServer(context: CloneContext, where: string): Required<Impossible> | undefined {
  // Subscriptions belong to the server's databases by OID: neither CREATE DATABASE nor our dumps copy them.
  const objects = unwantedAccess(context).filter((object) => !object.startsWith('subscription '));
  if (objects.length === 0) return undefined;
  return refuseUnsandboxed(
    where,
    objects,
    "a clone on a server of its own: --clone cluster, on the server's own machine",
  );
}
