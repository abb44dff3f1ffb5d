import type { Audit } from './audit.ts';
import { openSession } from './connect.ts';
import { readFacts } from './facts.ts';
import type { ConnectionSettings, HostAndPort } from './settings.ts';
import type { Target } from './target.ts';

/**
 * Connects once, reads what there is to know, and closes.
 * @throws SafemigrateError `CONNECTION`, `SERVER`, `CONFIGURATION`, `INTERRUPTED`
 */
export async function inspectTarget(
  settings: ConnectionSettings,
  source: string,
  options: {
    readonly run?: string;
    readonly audit?: Audit;
    readonly signal?: AbortSignal;
    /** A standby is what is looked for as well. */
    readonly standbyToo?: boolean;
  } = {},
): Promise<Target> {
  const session = await openSession(settings, { ...options, purpose: 'inspect', readOnly: true });
  try {
    const facts = await readFacts(session, options.standbyToo);
    return { settings: onlyHost(settings, session.address), source, ...facts };
  } finally {
    await session.close();
  }
}

/** The settings of the one host that answered: from here on there must be no second choice. */
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
