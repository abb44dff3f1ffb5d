import type { CloneService, ServiceBilling } from '../clone/services/clone-service.ts';
import { cliOf } from '../clone/services/service-cli.ts';
import { serviceNamed } from '../clone/services/service-list.ts';
import { serviceOfTarget } from '../clone/services/service-of-target.ts';
import { parseSource, sourceOfHost } from '../clone/services/service-source.ts';
import type { Target } from '../database/target.ts';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';

/** The hosted service that the target belongs to, and how it would clone the target. */
export interface RecognisedService {
  readonly id: string;
  readonly title: string;
  /** Cost of a clone there, in a phrase. */
  readonly cost: string;
  /** Words for what it is billed by. */
  readonly billing: ServiceBilling;
  readonly readyMs: number;
  /** The command line of the service, and the rights that its login needs. */
  readonly program: string;
  readonly rights: string;
  /** The two commands: whether it works, and the rehearsal. */
  readonly commands: readonly string[];
  /** Class of the machine that a clone would have; null if it is not known. */
  readonly instance: string | null;
  /** Storage that is billed for a clone: the allocated one, or the size of all databases; null if that is not known. */
  readonly storageBytes: number | null;
  /** Why it cannot be used; null if it can. */
  readonly obstacle: string | null;
  /** A way to remove the obstacle; null if none is known. */
  readonly wayOut: string | null;
}

const CALL_TIMEOUT_MS = 30_000;

/** Recognises the target's service if --clone does not name it, and tries it. @returns null for a server of another kind. */
export async function recogniseService(
  target: Target,
  session: Session,
  {
    of,
    method,
    signal,
  }: { readonly of: string | null; readonly method: string; readonly signal: AbortSignal },
): Promise<RecognisedService | null> {
  const service = (await serviceNamed(method)) ?? (await serviceOfTarget(target, session));
  if (service === undefined) return null;
  const { id, title, cost, billing, readyMs, program, rights } = service;
  const source = of ?? sourceOfHost(service, target);
  const variable = source !== null && of === null ? '' : `SAFEMIGRATE_CLONE_OF=${of ?? service.sourceForm} `;
  const found = await tried(service, source, signal);
  return {
    id,
    title,
    cost,
    billing,
    readyMs,
    program,
    rights,
    commands: [
      `${variable}safemigrate doctor --clone ${id}`,
      `${variable}safemigrate --clone ${id} -- <command>`,
    ],
    ...found,
    storageBytes: billing.byData ? await sizeOfAll(session) : found.storageBytes,
  };
}

// A service's own databases are closed to its users.
const SIZE = `
SELECT coalesce(sum(pg_catalog.pg_database_size(oid)), 0)::text AS bytes FROM pg_catalog.pg_database
 WHERE pg_catalog.has_database_privilege(oid, 'CONNECT')`;

async function sizeOfAll(session: Pick<Session, 'query'>): Promise<number> {
  const [row] = await session.query<{ bytes: string }>(SIZE);
  return Number(row?.bytes);
}

/** Asks the service's program for the source: it must be installed, logged in, and allowed to see it. */
async function tried(
  service: CloneService,
  source: string | null,
  signal: AbortSignal,
): Promise<Pick<RecognisedService, 'instance' | 'storageBytes' | 'obstacle' | 'wayOut'>> {
  if (source === null)
    return {
      instance: null,
      storageBytes: null,
      obstacle: `it is not known what ${service.title} calls the target`,
      wayOut: `set SAFEMIGRATE_CLONE_OF=${service.sourceForm}`,
    };
  try {
    const cli = cliOf(service, { timeoutMs: CALL_TIMEOUT_MS, signal });
    const { instance, storageBytes = null } = await service.inspect(cli, parseSource(service, source));
    return { instance, storageBytes, obstacle: null, wayOut: null };
  } catch (error) {
    signal.throwIfAborted();
    const hint = error instanceof SafemigrateError ? error.hint : undefined;
    const wayOut = hint?.replace(/ ?The target was not touched\.$/, '') || null;
    return { instance: null, storageBytes: null, obstacle: messageOf(error), wayOut };
  }
}
