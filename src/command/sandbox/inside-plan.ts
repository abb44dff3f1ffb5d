import { isIP } from 'node:net';
import { hostname } from 'node:os';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import { listSockets } from '../process-sockets.ts';
import { type AllowedPlaces, LOOPBACK } from './allowed-places.ts';
import type { InsideAddress, InsidePlan } from './launcher.ts';
import type { RefusedPlace } from './refused-places.ts';
import { systemProgram } from './sandbox-words.ts';

/** Any free port, for the proxy. */
const ANY_PORT: InsideAddress = { host: '127.0.0.1', port: 0 };

/** Ports that something listens at on most servers: of the web, of databases, caches, queues, proxies and secrets services. */
const USUAL_PORTS = [
  ...[22, 25, 80, 389, 443, 587, 636, 1433, 1521, 2379, 3000, 3128, 3306, 4317, 4318, 4433, 5000, 5432, 5433],
  ...[5672, 6379, 6380, 6432, 6543, 8000, 8080, 8081, 8086, 8123, 8200, 8443, 8500, 8888, 9000, 9042, 9092],
  ...[9200, 9418, 11211, 26257, 27017],
];

/** On a machine with more listening ports than that, not all are recorded. */
const MOST_OWN_PORTS = 200;

/** Decides what listens in the sandbox, besides the command: relays and the proxy, and else what records attempts. */
export async function planInside(
  { relays }: AllowedPlaces,
  { hosts }: ConnectionSettings,
): Promise<InsidePlan> {
  const addresses = [ANY_PORT, ...relays.map(({ inside, port }) => ({ host: inside, port }))];
  const isTaken = ({ address, port }: RefusedPlace) =>
    addresses.some((each) => each.host === address && each.port === port);
  const target = hosts.filter(({ host }) => isIP(host) !== 0 || LOOPBACK.test(host));
  const literal = [...new Set(target.map(({ host }) => host))].filter((host) => !LOOPBACK.test(host));
  const refused = [
    ...target.map(({ host, port }) => ({ address: host === 'localhost' ? '127.0.0.1' : host, port, host })),
    ...(await portsOfThisMachine()).map((port) => ({ address: '127.0.0.1', port, host: 'localhost' })),
  ];
  const ip = systemProgram('ip');
  return {
    addresses,
    refused: refused.filter((place) => !isTaken(place)),
    preparing: ip ? literal.map((host) => [ip, 'address', 'add', host, 'dev', 'lo']) : [],
    allowed: Object.fromEntries(relays.map(({ host, inside }) => [host, inside])),
    own: [hostname().toLowerCase()],
    ports: [...new Set([...hosts.map(({ port }) => port), ...USUAL_PORTS])],
  };
}

/** Lists the ports that are open to local clients: the command may expect a service there. */
async function portsOfThisMachine(): Promise<number[]> {
  const listening = (await listSockets(process.pid)).filter(({ peerPort }) => peerPort === 0);
  const local = listening.filter(({ address }) => LOOPBACK.test(address) || ANY_ADDRESS.includes(address));
  return [...new Set(local.map(({ port }) => port))].slice(0, MOST_OWN_PORTS);
}

const ANY_ADDRESS = ['0.0.0.0', '::'];
