import { once } from 'node:events';
import { chmod } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { makeWorkFolder } from '../../local-server/folder-cleaner.ts';
import type { HostAndPort } from '../../postgres/connection/connection-settings.ts';
import type { Scope } from '../../scope.ts';
import type { Sandboxed } from './command-sandbox.ts';
import type { SandboxParts } from './sandbox-words.ts';
import { placesOfTarget } from './target-addresses.ts';

/** As the proxy takes its clients: at rest, and with halves that are closed one by one. */
const FOR_PROXY = { allowHalfOpen: true, noDelay: true, pauseOnConnect: true };

/** The listening sockets that stand inside a sandbox where the target stands outside. */
export class TargetStandIn {
  /** The target's hosts, as the command names them. */
  readonly hosts: readonly HostAndPort[];
  readonly addresses: readonly HostAndPort[];
  readonly names: Readonly<Record<string, string>>;
  /** Unix sockets of ours, each with the path at which the command sees it. */
  readonly sockets: SandboxParts['sockets'];
  readonly #listeners: Server[] = [];
  readonly #servers: Server[];

  private constructor(
    { hosts, addresses, names }: Pick<TargetStandIn, 'hosts' | 'addresses' | 'names'>,
    sockets: readonly OpenSocket[],
  ) {
    this.hosts = hosts;
    this.addresses = addresses;
    this.names = names;
    this.sockets = sockets.map(({ file, source }) => ({ file, source }));
    this.#servers = sockets.map(({ server }) => server);
  }

  /** Finds the target's places, and opens the Unix sockets. */
  static async open(scope: Scope, { settings, sockets }: Sandboxed): Promise<TargetStandIn> {
    const places = await placesOfTarget(settings);
    const opened = sockets.length === 0 ? [] : await openSockets(scope, sockets);
    return new TargetStandIn({ ...places, hosts: settings.hosts }, opened);
  }

  /** Adds listeners at the target's addresses; who hands them over closes them too. */
  add(listeners: readonly Server[]): void {
    this.#listeners.push(...listeners);
  }

  /** Hands the clients over, once. */
  serve(onClient: (client: Socket) => void): void {
    for (const server of this.#servers) server.on('connection', onClient);
    for (const listener of this.#listeners)
      this.#servers.push(createServer(FOR_PROXY, onClient).listen(listener));
  }

  /** Takes no more clients. */
  async close(): Promise<void> {
    const closed = this.#servers.map(
      (server) => new Promise<void>((resolve) => void server.close(() => resolve())),
    );
    await Promise.all(closed);
  }
}

interface OpenSocket {
  readonly file: string;
  readonly source: string;
  readonly server: Server;
}

/** Every user of the sandbox may connect to a socket; outside, its folder is closed to others. */
const FOR_ALL = 0o777;

async function openSockets(scope: Scope, files: readonly string[]): Promise<OpenSocket[]> {
  const { folder } = await scope.own(
    'sockets in place of the target’s',
    () => makeWorkFolder(tmpdir(), 'sockets', files.join(', ')),
    async (made) => made?.guard.dismiss(),
  );
  return Promise.all(
    files.map(async (file, index) => {
      const source = path.join(folder, `${index}`);
      const server = await scope.own(
        'socket in place of the target’s',
        async () => createServer(FOR_PROXY),
        async (opened) => void opened?.close(),
      );
      server.listen(source);
      await once(server, 'listening');
      await chmod(source, FOR_ALL);
      return { file, source, server };
    }),
  );
}
