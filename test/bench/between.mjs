/**
 * What stands between a client and its server, in a process of its own, as a rehearsal has it: the proxy with
 * everything that observes through it, or a pipe that copies bytes and does nothing else. Run with `fork`; it tells its URL, and its
 * CPU time (and the process ids of its own backends) whenever it is asked.
 */
import { createConnection, createServer } from 'node:net';
import { Guard } from '../../src/observe/clone-boundary/rehearsal-gate.ts';
import { watchCommand } from '../../src/observe/command-watch.ts';
import { openSession } from '../../src/postgres/connection/connect.ts';
import { parseSettings } from '../../src/postgres/connection/connection-url.ts';
import { surroundings } from '../../src/postgres/connection/environment.ts';
import { warmUp } from '../../src/rehearsal/warm-up.ts';
import { Scope } from '../../src/scope.ts';

const [kind, url] = process.argv.slice(2);
const backends = [];
process.on('message', () => {
  const { user, system } = process.cpuUsage();
  process.send({ cpuMs: (user + system) / 1000, backends });
});
process.on('disconnect', () => process.exit());
process.send(kind === 'pipe' ? await pipe() : await proxy());

/** @returns {Promise<string>} */
async function pipe() {
  const { hostname: host, port } = new URL(url);
  const server = createServer({ noDelay: true }, (socket) => {
    const upstream = createConnection({ host, port: Number(port), noDelay: true });
    socket.pipe(upstream).pipe(socket);
    socket.on('error', () => upstream.destroy());
    upstream.on('error', () => socket.destroy());
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const entry = new URL(url);
  entry.hostname = '127.0.0.1';
  entry.port = String(server.address().port);
  return entry.href;
}

/** @returns {Promise<string>} */
async function proxy() {
  // As a run does while it waits for the server, before the command begins.
  await warmUp();
  const settings = parseSettings(url, surroundings({}, '/'));
  const { database } = settings;
  const guard = new Guard({
    names: { target: database, clone: database },
    allow: false,
    marking: () => '',
    databases: { limit: -1, has: () => false, standing: async () => 'absent', announce: async () => {} },
  });
  const watch = await watchCommand(new Scope(), {
    logins: [settings],
    clone: settings,
    cloneOid: 0,
    guard,
    observe: 'exact',
    otherDatabase: () => false,
    connect: async (purpose) => {
      const session = await openSession(settings, { purpose, database: 'template1' });
      backends.push(session.pid);
      return session;
    },
    emit: () => {},
  });
  const { hosts, user, password } = watch.routes[0].entry;
  const entry = new URL(url);
  entry.hostname = hosts[0].host;
  entry.port = String(hosts[0].port);
  entry.username = encodeURIComponent(user);
  entry.password = encodeURIComponent(password);
  return entry.href;
}
