import path from 'node:path';
import type { ConnectionSettings } from './connection-settings.ts';
import { connectionValues, VARIABLES } from './connection-url.ts';

const FILES = new Set(['sslrootcert', 'sslcert', 'sslkey', 'sslcrl', 'sslcrldir']);

/**
 * Returns the environment with which PostgreSQL's own programs connect with these settings, since arguments would show the
 * password to everybody on the machine. It holds no other PG* variable of our own environment.
 * @param options.settings server settings of the session.
 */
export function clientEnvironment(
  settings: ConnectionSettings,
  options: { readonly applicationName: string; readonly settings?: Readonly<Record<string, string>> },
): Record<string, string> {
  const own = Object.entries(options.settings ?? {}).map(([name, value]) => `-c ${name}=${value}`);
  const environment: Record<string, string> = {};
  for (const name of ['PATH', 'HOME', 'TZ', 'TMPDIR'] as const) {
    const value = process.env[name];
    if (value !== undefined) environment[name] = value;
  }
  for (const [key, value] of connectionValues(settings)) {
    const variable = VARIABLES[key];
    // The programs run in another folder than our own process.
    const isFile = FILES.has(key) && value !== 'system';
    if (variable !== undefined) environment[variable] = isFile ? path.resolve(value) : value;
  }
  const given = settings.parameters.options;
  const all = [...(given === undefined ? [] : [given]), ...own];
  return {
    ...environment,
    // Their messages are shown to users, who search the web for them.
    LC_ALL: 'C.UTF-8',
    PGAPPNAME: options.applicationName,
    ...(all.length === 0 ? {} : { PGOPTIONS: all.join(' ') }),
  };
}

/** Writes a database's name as an argument: a bare one with `=` or `://` in it would be read as connection settings. */
export function databaseArgument(name: string): string {
  return `dbname='${name.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`;
}
