import type { CommandAttempt } from '../../model/report.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import type { AttemptMessage } from './refused-places.ts';
import { isNamedTarget } from './target-addresses.ts';

/** Counts the places that a sandboxed command tried to reach. */
export class Attempts {
  readonly #settings: ConnectionSettings;
  #proxyPort = 0;
  readonly #found = new Map<string, CommandAttempt>();

  constructor(settings: ConnectionSettings) {
    this.#settings = settings;
  }

  /** The port of the proxy inside: who connects to it elsewhere has it from a variable that was rewritten, and means the target's. */
  set proxyPort(port: number) {
    this.#proxyPort = port;
  }

  add({ type, host, port }: AttemptMessage): void {
    const found = this.#of(host, port);
    if (type !== 'spoke-postgres') found.count += 1;
    else if (found.reason === 'not-allowed') found.reason = 'postgres';
  }

  /** Notes a connection to an allowed place that was closed. */
  addRefusal(host: string, port: number, reason: CommandAttempt['reason']): void {
    const found = this.#of(host, port);
    found.count += 1;
    found.reason = reason;
  }

  /** In order; a name that was only asked for stays if nothing connected to it. */
  list(): CommandAttempt[] {
    const all = [...this.#found.values()];
    const connected = new Set(all.flatMap(({ host, port }) => (port === null ? [] : [host])));
    return all.filter(({ host, port }) => port !== null || !connected.has(host)).map((each) => ({ ...each }));
  }

  #of(host: string, found: number | null): CommandAttempt {
    const port = found === this.#proxyPort ? (this.#settings.hosts[0]?.port ?? found) : found;
    const key = `${host}:${port}`;
    const known = this.#found.get(key);
    if (known) return known;
    const reason = isTarget(host, port, this.#settings) ? 'target' : 'not-allowed';
    const made: CommandAttempt = { host, port, count: 0, reason };
    this.#found.set(key, made);
    return made;
  }
}

/** Adds up what several runs tried. */
export function mergeAttempts(lists: readonly (readonly CommandAttempt[])[]): CommandAttempt[] {
  const merged = new Map<string, CommandAttempt>();
  for (const each of lists.flat()) {
    const key = JSON.stringify([each.host, each.port, each.reason]);
    merged.set(key, { ...each, count: each.count + (merged.get(key)?.count ?? 0) });
  }
  return [...merged.values()];
}

/** Its name alone is enough where nothing is known of the port. */
function isTarget(host: string, port: number | null, settings: ConnectionSettings): boolean {
  if (port === null) return settings.hosts.some((each) => each.host.toLowerCase() === host);
  return isNamedTarget({ host, port }, settings);
}
