import { messageOf, SafemigrateError } from '../errors.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { isSocketFolder } from '../postgres/connection/link.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { readServerIdentity, type ServerIdentity } from './server-identity.ts';

/** The relation of a connection of the command to the target. */
export type SameTargetVerdict =
  | { readonly kind: 'same' }
  /** Another database on the target's server. */
  | { readonly kind: 'other-database' }
  | { readonly kind: 'other-server' }
  | { readonly kind: 'undecided'; readonly reason: string };

export type Compare = (settings: ConnectionSettings) => Promise<SameTargetVerdict>;

const CONNECT_TIMEOUT_S = '3';

// The start time distinguishes a server from its standbys and file-level copies, which have the same identifier and OIDs.
const DATABASE_OID =
  'SELECT oid::pg_catalog.int8::pg_catalog.float8 AS oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database()';

/** The server, and the OID of the database. */
type Identity = Pick<ServerIdentity, 'startedAt' | 'systemIdentifier'> & { readonly oid: number };

/** Compares by text if that is enough, else by queries on both servers; each connection is compared once. */
export function comparer(target: ConnectionSettings, signal?: AbortSignal): Compare {
  const known = new Map<string, Promise<SameTargetVerdict>>();
  let own: Promise<Identity> | undefined;
  return (settings) => {
    const byText = compareByText(settings, target);
    if (byText) return Promise.resolve(byText);
    const key = JSON.stringify([settings.hosts, settings.user, settings.database]);
    own ??= identify(target, signal);
    const verdict = known.get(key) ?? compareByConnecting(settings, own, signal);
    known.set(key, verdict);
    return verdict;
  };
}

/** undefined: different names that may mean the same server. */
export function compareByText(
  settings: ConnectionSettings,
  target: ConnectionSettings,
): SameTargetVerdict | undefined {
  const theirs = settings.hosts.map(serverName);
  const ours = target.hosts.map(serverName);
  if (!theirs.some((name) => ours.includes(name))) return undefined;
  return { kind: settings.database === target.database ? 'same' : 'other-database' };
}

/** Normalizes the names of this machine. A socket's name contains the port of its server. */
function serverName({ host, port }: ConnectionSettings['hosts'][number]): string {
  const name = host.toLowerCase().replace(/\.$/, '');
  const local =
    isSocketFolder(host) || name === 'localhost' || name === '::1' || /^127\.\d+\.\d+\.\d+$/.test(name);
  return `${local ? 'localhost' : name}:${port}`;
}

async function compareByConnecting(
  settings: ConnectionSettings,
  target: Promise<Identity>,
  signal: AbortSignal | undefined,
): Promise<SameTargetVerdict> {
  let own: Identity;
  try {
    own = await target;
  } catch (error) {
    return { kind: 'undecided', reason: `the target could not be asked who it is: ${messageOf(error)}` };
  }
  try {
    return compareIdentities(await identify(settings, signal), own);
  } catch (error) {
    if (error instanceof SafemigrateError && error.code === 'INTERRUPTED') throw error;
    const reason =
      error instanceof SafemigrateError && error.code === 'SERVER'
        ? 'it is not a plain server'
        : 'it could not be connected to';
    return { kind: 'undecided', reason: `${reason}: ${messageOf(error).split('\n', 1)[0]}` };
  }
}

function compareIdentities(theirs: Identity, own: Identity): SameTargetVerdict {
  const bothKnown = theirs.systemIdentifier !== null && own.systemIdentifier !== null;
  if (theirs.startedAt === own.startedAt) return { kind: theirs.oid === own.oid ? 'same' : 'other-database' };
  if (bothKnown && theirs.systemIdentifier === own.systemIdentifier)
    return { kind: 'undecided', reason: "it names a standby or a copy of the target's server" };
  return { kind: 'other-server' };
}

async function identify(settings: ConnectionSettings, signal: AbortSignal | undefined): Promise<Identity> {
  const hasty = { ...settings, parameters: { ...settings.parameters, connect_timeout: CONNECT_TIMEOUT_S } };
  const opening = openSession(hasty, {
    purpose: 'identify',
    readOnly: true,
    throughPooler: true,
    statementTimeoutMs: Number(CONNECT_TIMEOUT_S) * 1000,
    ...(signal === undefined ? {} : { signal }),
  });
  return withSession(opening, async (session) => {
    const server = await readServerIdentity(session);
    const [row] = await session.query<{ oid: number }>(DATABASE_OID);
    return { ...server, oid: row?.oid ?? 0 };
  });
}
