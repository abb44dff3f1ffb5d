import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { lstatSync, rmSync } from 'node:fs';
import { isIP, type Server } from 'node:net';
import { hostname } from 'node:os';
import { SafemigrateError } from '../../errors.ts';
import { wordsOfProgram } from '../../package.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import type { Scope } from '../../scope.ts';
import { listSockets } from '../process-sockets.ts';
import { ProcessFamily, signalProcess } from '../process-tree.ts';
import type { StartCommand } from '../run-command.ts';
import { type AllowedPlaces, LOOPBACK } from './allowed-places.ts';
import { type CommandSandbox, wordsOf } from './command-sandbox.ts';
import { guardedRelay } from './guarded-relay.ts';
import type { InsidePlan, LauncherMessage, LaunchOrder } from './launcher.ts';
import { Attempts } from './outside-attempts.ts';
import type { RefusedPlace } from './refused-places.ts';
import { targetAddresses } from './target-addresses.ts';
import { TargetStandIn } from './target-stand-in.ts';

/** A sandbox that waits for its command. */
export type OpenSandbox = Awaited<ReturnType<typeof openSandbox>>;

type Ended = Extract<LauncherMessage, { type: 'ended' }>;

/**
 * Makes the sandbox for one run of the command. The scope ends it with everything that still runs in it; so does our own end.
 * @returns its listener, at a port of 127.0.0.1 inside the sandbox, and the stand-in at the target's addresses there: clients of both
 *   arrive here.
 * @throws SafemigrateError `SANDBOX`
 */
export async function openSandbox(
  scope: Scope,
  sandbox: Extract<CommandSandbox, { kind: 'sandboxed' }>,
  io: { readonly stdout: 'inherit' | 'stderr'; readonly terminal: boolean },
) {
  const { settings, allow } = sandbox;
  const standIn = sandbox.byAddress ? await TargetStandIn.open(scope, sandbox) : null;
  const [inside, words] = await Promise.all([
    planInside(allow, settings, standIn),
    wordsOf(sandbox, {
      addresses: addressesToAdd(standIn?.addresses ?? settings.hosts),
      replaced: standIn?.replaced ?? [],
    }),
  ]);
  const launcher = await scope.own(
    'sandbox',
    async () => launch(words, io),
    async (made) => made && endLauncher(made),
  );
  // If it fails, so does the launcher, which receiveListeners() reports.
  launcher.send(inside, () => {});
  const attempts = new Attempts(settings);
  launcher.on('message', (message: LauncherMessage) => {
    if ('host' in message) attempts.add(message);
  });
  // A run may end before anybody takes the listener, which would keep our process alive.
  let isOver = false;
  const servers = await scope.own<Server[]>(
    'listeners of the sandbox',
    async () => [],
    async (made) => {
      isOver = true;
      for (const server of made ?? []) server?.close();
    },
  );
  launcher.on('message', ({ type }: LauncherMessage, handle) => {
    if (isOver && type === 'listening') (handle as Server).close();
  });
  await receiveListeners(launcher, inside.addresses.length, servers);
  const [listener, ...others] = servers;
  if (!listener) throw new Error('the sandbox has no listener');
  attempts.proxyPort = portOf(listener);
  removeMadeFiles(words);
  standIn?.add(others.slice(allow.relays.length).filter((server) => server !== undefined));
  const target = allow.relays.length === 0 ? [] : await targetAddresses(settings);
  const open = allow.relays.flatMap((place, index) => {
    const server = others[index];
    if (!server) return [];
    return [guardedRelay(server, place, target, (why) => attempts.addRefusal(place.host, place.port, why))];
  });
  await scope.own(
    'relays of the sandbox',
    async () => open,
    async () => open.forEach((server) => void server.close()),
  );
  const start: StartCommand = (order) => startCommand(launcher, order);
  return { listener, standIn, start, attempts };
}

function portOf(listener: Server): number {
  const address = listener.address();
  return typeof address === 'object' ? (address?.port ?? 0) : 0;
}

function launch(
  words: readonly string[],
  { stdout, terminal }: { readonly stdout: 'inherit' | 'stderr'; readonly terminal: boolean },
): ChildProcess {
  const [first = '', ...rest] = [...words, ...wordsOfProgram('command/sandbox/launcher')];
  return spawn(first, rest, {
    cwd: '/',
    env: {},
    stdio: ['inherit', stdout === 'stderr' ? 2 : 'inherit', 'inherit', 'ipc'],
    // As of any command: on a terminal it shares our process group, and else leads one of its own.
    detached: !terminal,
  });
}

/** Ends all of it: while bubblewrap is still at work, its first process inside outlives it, and waits for it for ever. */
async function endLauncher(launcher: ChildProcess): Promise<void> {
  const { pid } = launcher;
  if (pid === undefined || launcher.exitCode !== null || launcher.signalCode !== null) return;
  const ended = once(launcher, 'exit');
  const family = new ProcessFamily(pid);
  await family.pids();
  launcher.kill('SIGKILL');
  for (const each of await family.pids()) signalProcess(each, 'SIGKILL');
  await ended;
}

/** @param servers gets each as it arrives. */
async function receiveListeners(launcher: ChildProcess, count: number, servers: Server[]): Promise<void> {
  let answered = 0;
  await new Promise<void>((resolve, reject) => {
    const fail = (why: string) =>
      reject(
        new SafemigrateError('SANDBOX', `The sandbox of the command could not be made: ${why}.`, {
          hint: 'The target was not touched.',
        }),
      );
    launcher.once('error', ({ message }) => fail(message));
    launcher.once('exit', (code, signal) => fail(`it ended with ${signal ?? `exit code ${code}`}`));
    launcher.on('message', (message: LauncherMessage, handle) => {
      if (message.type === 'failed') fail(message.message);
      if (message.type === 'listening') servers[message.index] = handle as Server;
      if (message.type === 'listening' || message.type === 'unavailable') answered += 1;
      if (answered === count) resolve();
    });
  });
}

/** bubblewrap makes an empty file under a cover if what it should cover was removed right before. */
function removeMadeFiles(words: readonly string[]): void {
  for (const [index, file] of words.entries()) {
    if (words[index - 1] !== '/dev/null') continue;
    const found = lstatSync(file, { throwIfNoEntry: false });
    if (found?.isFile() && found.size === 0 && found.uid === process.getuid?.())
      rmSync(file, { force: true });
  }
}

/** @throws Error if the command cannot be started. */
async function startCommand(launcher: ChildProcess, order: LaunchOrder) {
  const { pid } = launcher;
  if (pid === undefined || !launcher.connected) throw new Error('the sandbox has ended');
  const gone = Promise.all([once(launcher, 'exit'), once(launcher, 'disconnect')]);
  const told = new Promise<Ended>((resolve) => {
    launcher.on('message', (message: LauncherMessage) => message.type === 'ended' && resolve(message));
  });
  await new Promise<void>((resolve, reject) => {
    launcher.on('message', (message: LauncherMessage) => {
      if (message.type === 'started') resolve();
      if (message.type === 'failed') reject(new Error(message.message));
    });
    void gone.then(() => reject(new Error('the sandbox ended')));
    launcher.send(order);
  });
  // The launcher says how the command ended, unless it was killed together with it.
  const ended = gone.then(([[exitCode, signal]]) => Promise.race([told, { exitCode, signal }]));
  return { pid, ended };
}

/** Any free port, for the proxy. */
const ANY_PORT = { host: '127.0.0.1', port: 0, isOptional: false };

/** Ports that something listens at on most servers: of the web, of databases, caches, queues, proxies and secrets services. */
const USUAL_PORTS = [
  ...[22, 25, 80, 389, 443, 587, 636, 1433, 1521, 2379, 3000, 3128, 3306, 4317, 4318, 4433, 5000, 5432, 5433],
  ...[5672, 6379, 6380, 6432, 6543, 8000, 8080, 8081, 8086, 8123, 8200, 8443, 8500, 8888, 9000, 9042, 9092],
  ...[9200, 9418, 11211, 26257, 27017],
];

/** On a machine with more listening ports than that, not all are recorded. */
const MOST_OWN_PORTS = 200;

/** Decides what listens in the sandbox, besides the command: relays and the proxy, and else what records attempts. */
async function planInside(
  { relays }: AllowedPlaces,
  { hosts }: ConnectionSettings,
  standIn: TargetStandIn | null,
): Promise<InsidePlan> {
  const addresses = [
    ANY_PORT,
    ...relays.map(({ inside, port }) => ({ host: inside, port, isOptional: false })),
    ...(standIn?.addresses ?? []).map((place) => ({ ...place, isOptional: true })),
  ];
  const isTaken = ({ address, port }: RefusedPlace) =>
    addresses.some((each) => each.host === address && each.port === port);
  const target = hosts.filter(({ host }) => isIP(host) !== 0 || LOOPBACK.test(host));
  const refused = [
    ...target.map(({ host, port }) => ({ address: host === 'localhost' ? '127.0.0.1' : host, port, host })),
    ...(await portsOfThisMachine()).map((port) => ({ address: '127.0.0.1', port, host: 'localhost' })),
  ];
  return {
    addresses,
    refused: refused.filter((place) => !isTaken(place)),
    allowed: {
      ...standIn?.names,
      ...Object.fromEntries(relays.map(({ host, inside }) => [host, inside])),
    },
    own: [hostname().toLowerCase()],
    ports: [...new Set([...hosts.map(({ port }) => port), ...USUAL_PORTS])],
  };
}

/** Lists the addresses that the loopback device has to be given. */
function addressesToAdd(places: readonly { readonly host: string }[]): string[] {
  const literal = places.map(({ host }) => host).filter((host) => isIP(host) !== 0 && !LOOPBACK.test(host));
  return [...new Set(literal)];
}

/** Lists the ports that are open to local clients: the command may expect a service there. */
async function portsOfThisMachine(): Promise<number[]> {
  const listening = (await listSockets(process.pid)).filter(({ peerPort }) => peerPort === 0);
  const local = listening.filter(({ address }) => LOOPBACK.test(address) || ANY_ADDRESS.includes(address));
  return [...new Set(local.map(({ port }) => port))].slice(0, MOST_OWN_PORTS);
}

const ANY_ADDRESS = ['0.0.0.0', '::'];
