/**
 * Runs what stands between a client and its server in a process of its own: the proxy with everything that observes through it,
 * or a pipe that only copies bytes. Run with `fork`; it sends its URL, and on each message its CPU time and the process ids of
 * its own backends. With `sandbox` as the third word it lets everything pass, as for a clone in a sandbox.
 */
import { type AddressInfo, createConnection, createServer } from 'node:net';
import { RehearsalGate } from '../../src/boundary/rehearsal-gate.ts';
import { watchCommand } from '../../src/observe/command-watch.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { readEnvironment } from '../../src/postgres/connection/environment.ts';
import { parseText } from '../../src/postgres/sql/parse.ts';
import type { Observe } from '../../src/proxy/observed.ts';
import { Scope } from '../../src/scope.ts';

const [kind, url = '', where] = process.argv.slice(2);
const backends: number[] = [];
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send?.({ cpuMs: (user + system) / 1000, backends });
});
process.on('disconnect', () => process.exit());
process.send?.(kind === 'pipe' ? await pipe() : await proxy(kind as Observe));

async function pipe(): Promise<string> {
  const { hostname: host, port } = new URL(url);
  const server = createServer({ noDelay: true }, (socket) => {
    const upstream = createConnection({ host, port: Number(port), noDelay: true });
    socket.pipe(upstream).pipe(socket);
    socket.on('error', () => upstream.destroy());
    upstream.on('error', () => socket.destroy());
  });
  await new Promise((resolve: (value?: unknown) => void) => server.listen(0, '127.0.0.1', resolve));
  const entry = new URL(url);
  entry.hostname = '127.0.0.1';
  entry.port = String((server.address() as AddressInfo).port);
  return entry.href;
}

async function proxy(observe: Observe): Promise<string> {
  // The parser is loaded before the first statement is timed.
  await parseText(Buffer.from('SELECT 1'));
  const settings = parseSettings(url, readEnvironment({}, '/'));
  const { database } = settings;
  const guard = new RehearsalGate({
    names: { target: database, clone: database },
    // In a sandbox of its own a clone needs no check of what the command sends.
    ...(where === 'sandbox' ? { isolation: 'own-cluster', sandboxed: true } : { isolation: 'same-cluster' }),
    allow: false,
    marking: () => '',
    writingFunction: async () => undefined,
    databases: {
      limit: -1,
      has: () => false,
      ownershipStatus: async () => 'absent',
      announce: async () => {},
    },
  });
  const watch = await watchCommand(new Scope(), {
    logins: [settings],
    clone: settings,
    sharesRoles: true,
    cloneOid: 0,
    guard,
    observe,
    otherDatabase: () => false,
    connect: async (purpose) => {
      const session = await openSession(settings, { purpose, database: 'template1' });
      backends.push(session.pid);
      return session;
    },
    emit: () => {},
  });
  const [route] = watch.routes;
  if (!route) throw new Error('the proxy has no route');
  const { hosts, user, password } = route.entry;
  const entry = new URL(url);
  entry.hostname = hosts[0]?.host ?? '';
  entry.port = String(hosts[0]?.port);
  entry.username = encodeURIComponent(user);
  entry.password = encodeURIComponent(password ?? '');
  return entry.href;
}
