import type { Audit } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings, HostAndPort } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { readFacts } from './server-facts.ts';
import type { Target } from './target.ts';

export interface InspectOptions {
  readonly run?: string;
  readonly audit?: Audit;
  readonly signal?: AbortSignal;
  /** Accepts a standby. */
  readonly standbyToo?: boolean;
}

/** The target, and a read-only session in it. */
export interface Visit {
  readonly target: Target;
  readonly session: Session;
}

/**
 * Connects, and reads the facts about server, role and database.
 * @throws SafemigrateError `CONNECTION`, `SERVER`, `CONFIGURATION`, `INTERRUPTED`
 */
export async function visitTarget(
  settings: ConnectionSettings,
  source: string,
  options: InspectOptions = {},
): Promise<Visit> {
  const session = await openSession(settings, { ...options, purpose: 'inspect', readOnly: true });
  try {
    const answered = onlyHost(settings, session.address);
    const facts = await readFacts(session, options.standbyToo);
    return { target: { settings: answered, source, ...facts }, session };
  } catch (error) {
    await session.close();
    throw error;
  }
}

/** Like visitTarget(), but closes the session. */
export async function inspectTarget(
  settings: ConnectionSettings,
  source: string,
  options?: InspectOptions,
): Promise<Target> {
  const { target, session } = await visitTarget(settings, source, options);
  await session.close();
  return target;
}

/** Reduces the settings to the host that answered, so that later connections go to the same server. */
export function onlyHost(settings: ConnectionSettings, address: HostAndPort): ConnectionSettings {
  const { target_session_attrs, load_balance_hosts, hostaddr, ...parameters } = settings.parameters;
  const index = settings.hosts.indexOf(address);
  const hostAddress = hostaddr?.split(',')[index];
  return {
    ...settings,
    hosts: [address],
    parameters: hostAddress ? { ...parameters, hostaddr: hostAddress } : parameters,
  };
}
