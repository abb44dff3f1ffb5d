import type { ConnectionSettings } from './connection-settings.ts';
import type { Environment } from './environment.ts';
import { isSocketFolder } from './link.ts';

/**
 * Returns the password for this login from `~/.pgpass` (or the named file): the first line that matches any of the hosts.
 * Like libpq, a file that group or others may read is not used.
 */
export function passwordFromFile(
  { hosts, user, database }: Pick<ConnectionSettings, 'hosts' | 'user' | 'database'>,
  named: string | undefined,
  environment: Environment,
): string | undefined {
  const path = named || `${environment.home}/.pgpass`;
  if (!environment.isPrivate(path)) return undefined;
  const lines = (environment.readFile(path) ?? '')
    .split(/\r?\n/)
    .filter((line) => line !== '' && !line.startsWith('#'));
  for (const { host, port } of hosts) {
    const login = [isDefaultSocket(host) ? 'localhost' : host, String(port), database, user];
    for (const line of lines) {
      const fields = splitFields(line);
      if (
        fields.length === 5 &&
        login.every((value, index) => fields[index] === '*' || fields[index] === value)
      )
        return fields[4];
    }
  }
  return undefined;
}

/** In the password file, a socket in libpq's default folder is called localhost. */
function isDefaultSocket(host: string): boolean {
  return isSocketFolder(host) && ['/var/run/postgresql', '/tmp'].includes(host);
}

/** Splits host:port:database:user:password, with `\:` and `\\` as escapes; the last field is the rest. */
function splitFields(line: string): string[] {
  const fields: string[] = [''];
  for (let index = 0; index < line.length; index += 1) {
    let character = line.charAt(index);
    if (character === ':' && fields.length < 5) {
      fields.push('');
      continue;
    }
    if (character === '\\' && index + 1 < line.length) character = line.charAt(++index);
    fields[fields.length - 1] += character;
  }
  return fields;
}
