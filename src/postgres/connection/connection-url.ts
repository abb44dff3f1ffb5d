import { SafemigrateError } from '../../errors.ts';
import type { ConnectionSettings, HostAndPort, SslMode } from './connection-settings.ts';
import {
  type ConnectionText,
  readConnectionText,
  withoutPassword,
  writeConnectionText,
} from './connection-text.ts';
import type { Environment } from './environment.ts';
import { passwordFromFile } from './password-file.ts';
import { serviceParameters } from './service-file.ts';

/** libpq's environment variables, by parameter. */
export const VARIABLES: Readonly<Record<string, string>> = {
  host: 'PGHOST',
  hostaddr: 'PGHOSTADDR',
  port: 'PGPORT',
  user: 'PGUSER',
  password: 'PGPASSWORD',
  passfile: 'PGPASSFILE',
  dbname: 'PGDATABASE',
  service: 'PGSERVICE',
  options: 'PGOPTIONS',
  application_name: 'PGAPPNAME',
  sslmode: 'PGSSLMODE',
  sslrootcert: 'PGSSLROOTCERT',
  sslcert: 'PGSSLCERT',
  sslkey: 'PGSSLKEY',
  sslcrl: 'PGSSLCRL',
  sslcrldir: 'PGSSLCRLDIR',
  sslsni: 'PGSSLSNI',
  sslcertmode: 'PGSSLCERTMODE',
  sslnegotiation: 'PGSSLNEGOTIATION',
  ssl_min_protocol_version: 'PGSSLMINPROTOCOLVERSION',
  ssl_max_protocol_version: 'PGSSLMAXPROTOCOLVERSION',
  channel_binding: 'PGCHANNELBINDING',
  connect_timeout: 'PGCONNECT_TIMEOUT',
  target_session_attrs: 'PGTARGETSESSIONATTRS',
  load_balance_hosts: 'PGLOADBALANCEHOSTS',
};

const SSL_MODES: readonly SslMode[] = ['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'];
const DEFAULT_PORT = 5432;
const SOCKET_FOLDERS = ['/var/run/postgresql', '/tmp'];
/** Parameters with a field of their own in ConnectionSettings, or that only serve to fill one. */
const NOT_PARAMETERS = new Set([
  'host',
  'port',
  'user',
  'password',
  'dbname',
  'sslmode',
  'service',
  'passfile',
  'ssl',
]);

/**
 * Parses a text (`postgresql://…` or `host=… dbname=…`) as libpq does: missing parameters come from the service file, the PG*
 * variables, the password file and the defaults. Without a text, all of them do.
 * @throws SafemigrateError `CONFIGURATION`, which never shows a password.
 */
export function parseSettings(
  text: string | ConnectionText | undefined,
  environment: Environment,
): ConnectionSettings {
  const given = typeof text === 'string' ? readConnectionText(text) : text;
  const values = new Map(given?.values);
  if (!values.has('sslmode')) fill(values, modeOfSsl(values.get('ssl')));
  const service = values.get('service') ?? environment.env.PGSERVICE;
  if (service) fill(values, serviceParameters(service, environment));
  for (const [key, variable] of Object.entries(VARIABLES)) {
    // A variable's address must not redirect a host that the text names: tools other than libpq's would not follow.
    if (key === 'hostaddr' && values.has('host')) continue;
    const value = environment.env[variable];
    if (value) fill(values, [[key, value]]);
  }
  try {
    return complete(values, environment);
  } catch (error) {
    if (!(error instanceof Invalid)) throw error;
    const where = given === undefined ? 'The PG* variables' : withoutPassword(writeConnectionText(given));
    throw new SafemigrateError('CONFIGURATION', `${where}: ${error.message}.`);
  }
}

/** Writes `postgresql://user:password@host:port/database?…`, for programs, never for people. */
export function formatUrl(settings: ConnectionSettings): string {
  return writeConnectionText({ form: 'url', scheme: 'postgresql', values: connectionValues(settings) });
}

/** Returns the settings by libpq's names, as in ConnectionText. */
export function connectionValues(settings: ConnectionSettings): Map<string, string> {
  const { hosts, user, password, database, sslmode, parameters } = settings;
  return new Map([
    ['host', hosts.map(({ host }) => host).join(',')],
    ['port', hosts.map(({ port }) => port).join(',')],
    ['user', user],
    ...(password === undefined ? [] : ([['password', password]] as const)),
    ['dbname', database],
    // Other drivers interpret `prefer` differently; without it, each takes its default.
    ...(sslmode === 'prefer' ? [] : ([['sslmode', sslmode]] as const)),
    ...Object.entries(parameters),
  ]);
}

class Invalid extends Error {}

function fill(values: Map<string, string>, more: Iterable<readonly [string, string]>): void {
  for (const [key, value] of more) if (!values.has(key)) values.set(key, value);
}

function complete(values: ReadonlyMap<string, string>, environment: Environment): ConnectionSettings {
  const hosts = hostsOf(values, environment);
  const timeout = values.get('connect_timeout');
  if (timeout && !/^-?\d+$/.test(timeout)) throw new Invalid('connect_timeout is not a number of seconds');
  const user = values.get('user') || environment.user;
  const database = values.get('dbname') || user;
  const login = { hosts, user, database };
  const password = values.get('password') ?? passwordFromFile(login, values.get('passfile'), environment);
  return {
    ...login,
    ...(password === undefined ? {} : { password }),
    sslmode: sslModeOf(values),
    parameters: Object.fromEntries([...values].filter(([key]) => !NOT_PARAMETERS.has(key))),
  };
}

function hostsOf(values: ReadonlyMap<string, string>, environment: Environment): HostAndPort[] {
  const ports = list(values.get('port')).map(portOf);
  const names = list(values.get('host'));
  const addresses = list(values.get('hostaddr'));
  if (names.length > 0 && addresses.length > 0 && names.length !== addresses.length)
    throw new Invalid(`there are ${names.length} hosts and ${addresses.length} values of hostaddr`);
  const count = Math.max(names.length, addresses.length, 1);
  if (ports.length > 1 && ports.length !== count)
    throw new Invalid(`there are ${count} hosts and ${ports.length} ports`);
  return Array.from({ length: count }, (_, index) => {
    const port = ports[ports.length === 1 ? 0 : index] ?? DEFAULT_PORT;
    return { host: names[index] || addresses[index] || defaultHost(port, environment), port };
  });
}

function list(text: string | undefined): string[] {
  return text ? text.split(',').map((part) => part.trim()) : [];
}

function portOf(text: string): number {
  if (text === '') return DEFAULT_PORT;
  const port = Number(text);
  if (!Number.isInteger(port) || port < 1 || port > 65535)
    throw new Invalid('the port is not between 1 and 65535');
  return port;
}

function defaultHost(port: number, environment: Environment): string {
  return SOCKET_FOLDERS.find((folder) => environment.exists(`${folder}/.s.PGSQL.${port}`)) ?? 'localhost';
}

/** `ssl=true` of JDBC and node-pg, `ssl=require` of asyncpg. */
function modeOfSsl(ssl: string | undefined): [string, string][] {
  if (ssl === 'true' || ssl === '1') return [['sslmode', 'require']];
  return SSL_MODES.some((mode) => mode === ssl) && ssl !== undefined ? [['sslmode', ssl]] : [];
}

function sslModeOf(values: ReadonlyMap<string, string>): SslMode {
  const written = values.get('sslmode');
  const system = values.get('sslrootcert') === 'system';
  if (written === undefined) return system ? 'verify-full' : 'prefer';
  // A value of Node's drivers: encrypted, without checking the certificate.
  const mode = written === 'no-verify' ? 'require' : SSL_MODES.find((known) => known === written);
  if (mode === undefined) throw new Invalid(`sslmode=${written} is none of ${SSL_MODES.join(', ')}`);
  if (system && mode !== 'verify-full')
    throw new Invalid(`sslmode=${mode} is too weak for sslrootcert=system, which needs verify-full`);
  const direct = values.get('sslnegotiation') === 'direct';
  if (direct && (mode === 'disable' || mode === 'allow' || mode === 'prefer'))
    throw new Invalid(`sslmode=${mode} is too weak for sslnegotiation=direct, which needs require or more`);
  return mode;
}
