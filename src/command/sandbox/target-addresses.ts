import { lookup } from 'node:dns/promises';
import { isIP } from 'node:net';
import { networkInterfaces } from 'node:os';
import { SafemigrateError } from '../../errors.ts';
import type { ConnectionSettings, HostAndPort } from '../../postgres/connection/connection-settings.ts';
import { type AllowedPlaces, LOOPBACK } from './allowed-places.ts';
import { realSocket, socketPathsOf } from './unix-sockets.ts';

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
export async function targetAddresses({ hosts, parameters }: ConnectionSettings): Promise<HostAndPort[]> {
  const given = parameters.hostaddr?.split(',') ?? [];
  const written = hosts.map(({ port }, index) => ({ host: given[index] ?? given[0] ?? '', port }));
  const found = await Promise.all(hosts.map(addressesOf));
  return [...written.filter(({ host }) => isIP(host) !== 0), ...found.flat()];
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
  const own = Object.values(networkInterfaces()).flatMap((all) => all ?? []);
  return LOOPBACK.test(address) || own.some((each) => each.address === address);
}
