import { isIPv4, isIPv6 } from 'node:net';
import { SafemigrateError } from '../../errors.ts';

/** Places that a sandboxed command may reach besides the proxy (`--permit`). */
export interface AllowedPlaces {
  readonly relays: readonly AllowedHost[];
  /** Paths of Unix sockets that stay visible. */
  readonly sockets: readonly string[];
}

export interface AllowedHost {
  /** Host as the command names it. */
  readonly host: string;
  readonly port: number;
  /** Clients of PostgreSQL may connect to it: `postgres:host:port`. */
  readonly postgres: boolean;
  /** The loopback address inside the sandbox at which the command finds it. */
  readonly inside: string;
}

/** Names of this machine, and addresses of its loopback device. */
export const LOOPBACK = /^127\.|^localhost$|^::1$/;

/** Addresses for names of hosts inside the sandbox: all of 127.0.0.0/8 belongs to its loopback device. */
const FIRST_INSIDE = '127.65.0.';
const MOST_HOSTS = 250;

/** Takes the place of a list in a config file. */
const NOTHING = 'none';
const FOR_POSTGRES = 'postgres:';

/**
 * Reads `host:port`, `postgres:host:port`, paths of Unix sockets, and `none`. A name gets an address of the sandbox's own, a loopback address keeps its own.
 * @throws SafemigrateError `CONFIGURATION`
 */
export function parseAllowedPlaces(given: readonly string[]): AllowedPlaces {
  const texts = given.filter((text) => text !== NOTHING);
  const sockets = texts.filter((text) => text.startsWith('/'));
  const pairs = texts.filter((text) => !text.startsWith('/')).map(parseHost);
  const names = [...new Set(pairs.map(({ host }) => host))].filter((host) => !LOOPBACK.test(host));
  if (names.length > MOST_HOSTS) throw wrong(`names ${names.length} hosts`, `at most ${MOST_HOSTS}`);
  const relays = pairs.map((pair) => ({ ...pair, inside: insideAddress(pair.host, names) }));
  return { relays, sockets };
}

function insideAddress(host: string, names: readonly string[]): string {
  if (host === 'localhost') return '127.0.0.1';
  return LOOPBACK.test(host) ? host : `${FIRST_INSIDE}${names.indexOf(host) + 1}`;
}

function parseHost(text: string): Omit<AllowedHost, 'inside'> {
  const postgres = text.startsWith(FOR_POSTGRES) && text.split(':').length > 2;
  const pair = postgres ? text.slice(FOR_POSTGRES.length) : text;
  const [, host = '', digits = ''] = /^([\w.-]+):(\d{1,5})$/.exec(pair) ?? [];
  const port = Number(digits);
  if (host === '' || port < 1 || port > 65_535)
    throw wrong(
      `is "${text}"`,
      'host:port, such as vault.example:443, postgres:host:port, or the path of a Unix socket',
    );
  if ((isIPv4(host) && !LOOPBACK.test(host)) || isIPv6(host))
    throw wrong(`is "${text}"`, 'the name of a host: the sandbox has no other addresses than its own');
  return { host: host.toLowerCase(), port, postgres };
}

function wrong(what: string, wanted: string): SafemigrateError {
  return new SafemigrateError('CONFIGURATION', `--permit ${what}, and can be ${wanted}.`, {
    hint: 'Nothing was touched.',
  });
}

/** Writes a place in the form that users write it. */
export function allowedPlaceText({ host, port, postgres }: AllowedHost): string {
  return `${postgres ? FOR_POSTGRES : ''}${host}:${port}`;
}
