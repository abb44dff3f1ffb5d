import type { CloneContext, Impossible } from './method.ts';

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

/** The reason why the cluster cannot be copied here; assess() turns it into its result. */
export class CopyObstacle extends Error {
  override readonly name = 'Obstacle';
  /** What would make it possible: an exact statement, command or option. */
  readonly enable: string | undefined;

  constructor(reason: string, enable?: string) {
    super(reason);
    this.enable = enable;
  }
}
