import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createServer, isIPv6 } from 'node:net';
import type { HostAndPort } from '../../postgres/connection/connection-settings.ts';
import { serveNames } from './name-server.ts';
import {
  type AttemptMessage,
  type RefusedPlace,
  RefusedPlaces,
  type RefusingOptions,
} from './refused-places.ts';

// The program that runs in a sandbox between safemigrate and the command. It opens listening sockets there and hands them out, so
// that safemigrate itself accepts what the command connects to; nothing is copied from one socket to another. Then it runs the
// command, and ends with it. If safemigrate dies, everything in the sandbox ends. Meanwhile it records what the command tries to reach.

/** Everything that the launcher makes before the command starts. It is the first message, since arguments are short and seen by all. */
export interface InsidePlan extends Omit<RefusingOptions, 'record'> {
  /** Addresses to listen on inside; port 0 is any free one. */
  readonly addresses: readonly (HostAndPort & { readonly isOptional: boolean })[];
  readonly refused: readonly RefusedPlace[];
}

/** Order that the launcher gets once, after all of its sockets have arrived. */
export interface LaunchOrder {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly folder: string;
}

export type LauncherMessage =
  | AttemptMessage
  /** Comes with the listening socket. */
  | { readonly type: 'listening'; readonly index: number }
  /** An optional address that does not exist inside. */
  | { readonly type: 'unavailable'; readonly index: number }
  | { readonly type: 'started' }
  | { readonly type: 'failed'; readonly message: string }
  | { readonly type: 'ended'; readonly exitCode: number | null; readonly signal: NodeJS.Signals | null };

// The command gets these signals itself, as a member of the same process group.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const) process.on(signal, () => {});

const send = (message: LauncherMessage, socket?: ReturnType<typeof createServer>) =>
  new Promise<void>((resolve) => process.send?.(message, socket, {}, () => resolve()));

async function launch(): Promise<void> {
  const [plan] = (await once(process, 'message')) as [InsidePlan];

  const servers = plan.addresses.map(({ host, port, isOptional }, index) => {
    const server = createServer();
    server.once(
      'error',
      ({ message }) => void send(isOptional ? { type: 'unavailable', index } : { type: 'failed', message }),
    );
    // One that was closed before it listened would keep us alive.
    server.listen({ host, port, ipv6Only: isIPv6(host) }, () => {
      if (process.connected) void send({ type: 'listening', index }, server);
      else server.close();
    });
    return server;
  });

  const places = new RefusedPlaces({ ...plan, record: (message) => void send(message) });
  const recording = Promise.all([
    serveNames((question) => places.answer(question)),
    ...plan.refused.map((place) => places.refuse(place)),
  ]);

  const closeServers = () => {
    for (const server of servers) server.close();
  };
  process.once('disconnect', closeServers);

  process.once('message', async ({ argv: [program = '', ...args], env, folder }: LaunchOrder) => {
    // The other ends are with safemigrate now.
    closeServers();
    places.listenAlso(portsNamedIn([...args, ...Object.values(env)]));
    await recording;
    if (!process.connected) return;
    const command = spawn(program, args, { cwd: folder, env, stdio: 'inherit' });
    // Without the channel nothing keeps us alive once the command has ended. The sandbox ends with us, and everything in it: we are
    // its first process, or the only child of the one that is.
    process.once('disconnect', () => command.kill('SIGKILL'));
    command.once('spawn', () => void send({ type: 'started' }));
    command.once('error', ({ message }) => void send({ type: 'failed', message }).then(leave));
    command.once('exit', (exitCode, signal) => void send({ type: 'ended', exitCode, signal }).then(leave));
  });
}

void launch();

/** Ports in words of the command and in its variables: `redis://cache:6390/0`, or a number alone. */
function portsNamedIn(texts: readonly string[]): number[] {
  const found = texts.flatMap((text) => [...text.matchAll(/(?:^|:)(\d{2,5})(?=[/?,;"'\s]|$)/g)]);
  return found.map(([, digits]) => Number(digits)).filter((port) => port < 65_536);
}

function leave(): void {
  if (process.connected) process.disconnect();
}
