import type { HostAndPort } from './connection-settings.ts';

/**
 * The backends of the sessions that this process has opened. The statistics of a server count all sessions alike, and anybody
 * may choose our application_name: only the process ids that the server announced to us tell which ones are ours.
 */
export interface OwnBackend {
  readonly address: HostAndPort;
  readonly database: string;
  readonly pid: number;
}

const open = new Set<OwnBackend>();
const opened = new Map<string, number>();

/** Records a backend. @returns what to call when its session has ended. */
export function recordOwnBackend(backend: OwnBackend): () => void {
  open.add(backend);
  opened.set(keyOf(backend), ownSessionsOpened(backend) + 1);
  return () => open.delete(backend);
}

/** Counts the sessions that this process has opened in a database of a server until now, whether they are open or not. */
export function ownSessionsOpened(place: Omit<OwnBackend, 'pid'>): number {
  return opened.get(keyOf(place)) ?? 0;
}

/** Process ids of our open sessions on a server. */
export function ownBackendPids({ host, port }: HostAndPort): Set<number> {
  const own = [...open].filter(({ address }) => address.host === host && address.port === port);
  return new Set(own.map(({ pid }) => pid));
}

const ports = new Set<number>();

/** Records the local port of a TCP connection that this process has opened to some server. */
export function recordOwnPort(port: number | undefined): void {
  if (port !== undefined) ports.add(port);
}

/** The local ports of all TCP connections that this process has opened to servers, those that have ended among them. */
export function ownPorts(): ReadonlySet<number> {
  return ports;
}

function keyOf({ address: { host, port }, database }: Omit<OwnBackend, 'pid'>): string {
  return JSON.stringify([host, port, database]);
}
