import { lookup } from 'node:dns/promises';
import { readFileSync } from 'node:fs';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { SafemigrateError } from '../../errors.ts';
import type { ConnectionSettings, HostAndPort } from '../../postgres/connection/connection-settings.ts';
import { type AllowedPlaces, LOOPBACK } from './allowed-places.ts';
import { realSocket, socketPathsOf } from './unix-sockets.ts';

// The one place that decides which names and addresses mean the target.

/** Where the target is found inside a sandbox. */
export interface TargetPlaces {
  /** Addresses to listen at: all that lead to the target outside, and those of its names inside. */
  readonly addresses: readonly HostAndPort[];
  /** The address inside to which each of its names leads. A name in /etc/hosts leads where it does outside. */
  readonly names: Readonly<Record<string, string>>;
}

/** Addresses for the target's names inside the sandbox. */
const FIRST_INSIDE = '127.66.2.';
const MOST_NAMES = 250;

/** Adds the places of further connections to the same server: a pooler's, another name, an address that was given beside the name. */
export function withPlacesOf(
  settings: ConnectionSettings,
  further: readonly ConnectionSettings[],
): ConnectionSettings {
  const places = [settings, ...further].flatMap((each) => [...each.hosts, ...givenAddresses(each)]);
  const hosts = new Map(places.map((place) => [JSON.stringify([place.host, place.port]), place]));
  const { hostaddr: _amongHosts, ...parameters } = settings.parameters;
  return { ...settings, parameters, hosts: [...hosts.values()] };
}

/** Finds where a command may look for the target. */
export async function placesOfTarget(settings: ConnectionSettings): Promise<TargetPlaces> {
  const named = settings.hosts.filter(({ host }) => isName(host));
  const written = [...new Set(named.map(({ host }) => nameAsked(host)))].slice(0, MOST_NAMES);
  const names = Object.fromEntries(written.map((name, index) => [name, `${FIRST_INSIDE}${index + 1}`]));
  const inside = named.flatMap(({ host, port }) => {
    const address = names[nameAsked(host)];
    return address === undefined ? [] : [{ host: address, port }];
  });
  const outside = (await targetAddresses(settings)).flatMap(({ host, port }) =>
    isOfThisMachine(host) ? ownAddresses().map((own) => ({ host: own, port })) : [{ host, port }],
  );
  const places = new Map([...inside, ...outside].map((place) => [`${place.host} ${place.port}`, place]));
  return { addresses: [...places.values()], names };
}

/** A name as resolvers ask for it. */
function nameAsked(host: string): string {
  return host.toLowerCase().replace(/\.$/, '');
}

function isName(host: string): boolean {
  return isIP(host) === 0 && !LOOPBACK.test(host) && !host.startsWith('/') && !host.startsWith('@');
}

/**
 * Refuses to allow the target under any of its names: a way to it past the proxy would make the sandbox worthless.
 * @throws SafemigrateError `CONFIGURATION`
 */
export async function refuseTarget(
  { relays, sockets }: AllowedPlaces,
  settings: ConnectionSettings,
): Promise<void> {
  const own = new Set(socketPathsOf(settings).map(realSocket));
  const addresses = relays.length === 0 ? [] : await targetAddresses(settings);
  const named = await Promise.all(relays.map((place) => leadsToTarget(place, settings, addresses)));
  if (!named.includes(true) && !sockets.some((file) => own.has(realSocket(file)))) return;
  throw new SafemigrateError('CONFIGURATION', '--permit names the target itself.', {
    hint: 'The command reaches its clone without that. Nothing was touched.',
  });
}

async function leadsToTarget(
  place: HostAndPort,
  settings: ConnectionSettings,
  target: readonly HostAndPort[],
): Promise<boolean> {
  if (isNamedTarget(place, settings)) return true;
  const addresses = await addressesOf(place);
  return addresses.some((each) => isTargetAddress(each, target));
}

/** Says whether a host and port are those that the target's settings name; all names of the loopback device are one. */
export function isNamedTarget(place: HostAndPort, { hosts }: ConnectionSettings): boolean {
  return hosts.some(({ host, port }) => {
    const areLocal = LOOPBACK.test(host) && LOOPBACK.test(place.host);
    return port === place.port && (areLocal || host.toLowerCase() === place.host.toLowerCase());
  });
}

/** Finds the addresses of the target. A name that cannot be resolved now has none. */
export async function targetAddresses(settings: ConnectionSettings): Promise<HostAndPort[]> {
  const resolved = await Promise.all(settings.hosts.map(addressesOf));
  return [...givenAddresses(settings), ...resolved.flat()];
}

/** Addresses that were given beside the names of hosts. */
function givenAddresses({ hosts, parameters }: ConnectionSettings): HostAndPort[] {
  const given = parameters.hostaddr?.split(',') ?? [];
  const places = hosts.map(({ port }, index) => ({ host: given[index] ?? given[0] ?? '', port }));
  return places.filter(({ host }) => isIP(host) !== 0);
}

/** Says whether a connection to an address leads to the target. All addresses of this machine are one. */
export function isTargetAddress(place: HostAndPort, target: readonly HostAndPort[]): boolean {
  return target.some(
    ({ host, port }) =>
      port === place.port && (host === place.host || (isOfThisMachine(host) && isOfThisMachine(place.host))),
  );
}

async function addressesOf({ host, port }: HostAndPort): Promise<HostAndPort[]> {
  if (host.startsWith('/') || host.startsWith('@')) return [];
  if (isIP(host) !== 0) return [{ host, port }];
  const found = await lookup(host, { all: true }).catch(() => []);
  return found.map(({ address }) => ({ host: address, port }));
}

function isOfThisMachine(address: string): boolean {
  return LOOPBACK.test(address) || ANY_ADDRESS.includes(address) || interfaceAddresses().includes(address);
}

const ANY_ADDRESS = ['0.0.0.0', '::'];

function interfaceAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((all) => (all ?? []).map(({ address }) => address));
}

/** Lists the addresses of this machine, without link-local ones of IPv6, which need a zone. */
function ownAddresses(): string[] {
  const hosts = readFileSync('/etc/hosts', 'utf8').match(/^127\.\S+/gm) ?? [];
  const withoutZone = interfaceAddresses().filter((address) => !/^fe80:/i.test(address));
  return [...new Set(['127.0.0.1', '::1', ...hosts, ...withoutZone])].filter(
    (address) => isIP(address) !== 0,
  );
}
