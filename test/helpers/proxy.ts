import { LockReader } from '../../src/observe/locks.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import type { Observed, Statement } from '../../src/proxy/observed.ts';
import { type ProxyOptions, startProxy, type WireProxy } from '../../src/proxy/proxy.ts';

export interface ObservedStatement {
  readonly statement: Statement;
  readonly outcome: Extract<Observed, { type: 'end' }>['outcome'] | undefined;
  readonly locks: Extract<Observed, { type: 'locks' }> | undefined;
}

export interface TestProxy {
  readonly proxy: WireProxy;
  /** Leads through the proxy, under the database's own name. */
  readonly url: string;
  readonly events: Observed[];
  readonly reader: LockReader;
  /** What was seen so far, a line for each statement. */
  statements(): ObservedStatement[];
}

export const SECRET = 'the secret of this run';

/** As on the way to a target, with everything done that may be done to a statement. */
export const GUARDED: Partial<ProxyOptions> = {
  observe: 'sampled',
  settings: { lock_timeout: '2000' },
  gate: {
    before: () => 'run',
    between: async () => {},
    waitsForLocks: () => true,
    after: async (_intent, { number }) => (number < 3 ? 'retry' : 'deliver'),
  },
};

/** A proxy in front of one database, for the time of `use`; its observer sits in the database `postgres`. */
export async function withProxy<T>(
  databaseUrl: string,
  options: Partial<ProxyOptions>,
  use: (test: TestProxy) => Promise<T>,
): Promise<T> {
  const settings = parseSettings(databaseUrl, readEnvironment({}, '/'));
  const events: Observed[] = [];
  const reader = new LockReader(() => openSession(settings, { purpose: 'observe', database: 'postgres' }));
  const proxy = await startProxy({
    routes: [{ user: settings.user, database: settings.database, upstream: settings }],
    secret: SECRET,
    observer: (event) => events.push(event),
    readLocks: reader.read,
    ...options,
  });
  const url = new URL(databaseUrl);
  url.hostname = proxy.host;
  url.port = String(proxy.port);
  url.password = encodeURIComponent(SECRET);
  try {
    return await use({ proxy, url: url.href, events, reader, statements: () => statementsOf(events) });
  } finally {
    await proxy.close();
    await reader.close();
  }
}

function statementsOf(events: readonly Observed[]): ObservedStatement[] {
  return events.flatMap((begun) => {
    if (begun.type !== 'begin') return [];
    const { statement } = begun;
    const end = events.find((event) => event.type === 'end' && event.statement === statement);
    const locks = events.find((event) => event.type === 'locks' && event.statements.includes(statement));
    return [
      {
        statement,
        outcome: end?.type === 'end' ? end.outcome : undefined,
        locks: locks?.type === 'locks' ? locks : undefined,
      },
    ];
  });
}
