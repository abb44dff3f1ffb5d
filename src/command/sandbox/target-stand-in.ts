import { once } from 'node:events';
import { chmod, writeFile } from 'node:fs/promises';
import { createServer, isIP, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { makeWorkFolder } from '../../local-server/folder-cleaner.ts';
import type { HostAndPort } from '../../postgres/connection/connection-settings.ts';
import type { Scope } from '../../scope.ts';
import type { Sandboxed } from './command-sandbox.ts';
import { makeRunCertificate, type RunCertificate } from './run-certificate.ts';
import type { SandboxParts } from './sandbox-words.ts';
import { placesOfTarget, type TargetPlaces } from './target-addresses.ts';
import { withAuthority } from './trust-files.ts';

/** The proxy takes clients at rest, and closes the halves of a connection one by one. */
const FOR_PROXY = { allowHalfOpen: true, noDelay: true, pauseOnConnect: true };

/** The listening sockets that replace the target inside a sandbox, at all of its places. */
export class TargetStandIn {
  /** The target's hosts, as the command names them. */
  readonly hosts: readonly HostAndPort[];
  readonly addresses: readonly HostAndPort[];
  readonly names: Readonly<Record<string, string>>;
  /** Unix sockets of ours and files that trust the certificate, each with the path at which the command sees it. */
  readonly replaced: SandboxParts['replaced'];
  /** null: the target speaks no TLS. */
  readonly certificate: RunCertificate | null;
  readonly #listeners: Server[] = [];
  readonly #servers: Server[];

  private constructor(
    hosts: readonly HostAndPort[],
    { addresses, names }: TargetPlaces,
    certificate: RunCertificate | null,
    sockets: readonly OpenSocket[],
    files: SandboxParts['replaced'],
  ) {
    this.hosts = hosts;
    this.addresses = addresses;
    this.names = names;
    this.certificate = certificate;
    this.replaced = [...sockets.map(({ file, source }) => ({ file, source })), ...files];
    this.#servers = sockets.map(({ server }) => server);
  }

  /**
   * Finds the target's places, and opens the Unix sockets.
   * @returns null if these have no folder: the state folder or the temporary one cannot be written to.
   */
  static async open(
    scope: Scope,
    { settings: { hosts }, settings, sockets, speaksTls, trustFiles }: Sandboxed,
  ): Promise<TargetStandIn | null> {
    const places = await placesOfTarget(settings);
    const certificate = speaksTls ? makeRunCertificate(namesOf(hosts, places)) : null;
    const trusting = certificate === null ? [] : trustFiles;
    if (sockets.length + trusting.length === 0) return new TargetStandIn(hosts, places, certificate, [], []);
    const folder = await ownFolder(scope, [...sockets, ...trusting]).catch(() => null);
    if (folder === null) return null;
    const opened = await openSockets(scope, folder, sockets);
    const files = await Promise.all(
      trusting.map(async (file, index) => {
        const source = path.join(folder, `trusted-${index}`);
        await writeFile(source, withAuthority(file, certificate?.ca ?? ''), { mode: FOR_READERS });
        return { file, source };
      }),
    );
    return new TargetStandIn(hosts, places, certificate, opened, files);
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

const FOR_READERS = 0o644;

async function ownFolder(scope: Scope, files: readonly string[]): Promise<string> {
  const { folder } = await scope.own(
    'files in place of others',
    () => makeWorkFolder(tmpdir(), 'sockets', files.join(', ')),
    async (made) => made?.guard.dismiss(),
  );
  return folder;
}

/** Lists the names and addresses for the certificate. */
function namesOf(hosts: readonly HostAndPort[], { addresses, names }: TargetPlaces): string[] {
  const written = hosts.map(({ host }) => host).filter((host) => isIP(host) === 0 && !host.startsWith('/'));
  return [...new Set([...written, ...Object.keys(names), 'localhost', ...addresses.map(({ host }) => host)])];
}

async function openSockets(scope: Scope, folder: string, files: readonly string[]): Promise<OpenSocket[]> {
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
