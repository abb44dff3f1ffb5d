import type { ConnectionSettings, HostAndPort } from '../postgres/connection/connection-settings.ts';
import { type ConnectionPart, groupsOf } from '../postgres/connection/split-names.ts';
import { effective, labelOf, type Mention, type Variables } from './mention.ts';
import { demandsTls } from './url-mentions.ts';

export const DEFAULT_PORT = 5432;

/**
 * Finds connections that are spread over variables with a common prefix: DB_HOST, DB_PORT, DB_NAME; POSTGRES_DB, …
 * A group without a database, or with neither host nor user, names nothing.
 */
export function findSplitVariables(variables: Variables, target: ConnectionSettings): Mention[] {
  const values = effective(variables);
  const mentions: Mention[] = [];
  for (const [prefix, group] of groupsOf(Object.keys(values))) {
    const read = (part: ConnectionPart) => values[group.get(part)?.[0] ?? ''];
    const database = read('database');
    const user = read('user');
    const host = read('host');
    if (!database || (!host && !user) || host?.includes('://') || database.includes('://')) continue;
    const port = Number(read('port') || DEFAULT_PORT);
    if (!Number.isInteger(port)) continue;
    const password = read('password');
    const settings: ConnectionSettings = {
      // Without a host the group uses the server of the other connections.
      hosts: host ? [{ host, port }] : target.hosts,
      user: user || target.user,
      ...(password ? { password } : target.password === undefined ? {} : { password: target.password }),
      database,
      sslmode: target.sslmode,
      parameters: target.parameters,
    };
    const names = [...group.values()].flat();
    mentions.push({
      label: names.map((name) => labelOf(name, variables)).join(', '),
      settings,
      namesServer: Boolean(host),
      lacksPassword: !password,
      apply: (child, entry) => {
        const moved = !settings.hosts.some((known) => sameAddress(known, entry.hosts[0]));
        for (const [part, value] of valuesOf(entry, moved)) {
          for (const name of group.get(part) ?? []) {
            const isTls = part === 'sslmode' || part === 'ssl';
            if (values[name] !== value && !(isTls && !demandsTls(values[name]))) child.env[name] = value;
          }
        }
        const portName = `${prefix}PORT`;
        if (!group.has('port') && host && String(entry.hosts[0]?.port) !== String(port))
          child.env[portName] = String(entry.hosts[0]?.port);
      },
    });
  }
  return mentions;
}

function valuesOf(entry: ConnectionSettings, moved: boolean): [ConnectionPart, string][] {
  const [first] = entry.hosts;
  return [
    ...(moved && first
      ? ([
          ['host', first.host],
          ['port', String(first.port)],
        ] satisfies [ConnectionPart, string][])
      : []),
    ...(moved
      ? ([
          ['sslmode', entry.sslmode],
          ['ssl', String(entry.sslmode !== 'disable')],
        ] satisfies [ConnectionPart, string][])
      : []),
    ['database', entry.database],
    ['user', entry.user],
    ...(entry.password === undefined
      ? []
      : ([['password', entry.password]] satisfies [ConnectionPart, string][])),
  ];
}

function sameAddress(known: HostAndPort, other: HostAndPort | undefined): boolean {
  return known.host === other?.host && known.port === other.port;
}
