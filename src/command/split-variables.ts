import type { ConnectionSettings, HostAndPort } from '../postgres/connection/connection-settings.ts';
import { effective, labelOf, type Mention, type Variables } from './mention.ts';
import { demandsTls } from './url-mentions.ts';

export type ConnectionPart = 'host' | 'port' | 'database' | 'user' | 'password' | 'sslmode' | 'ssl';

/** Suffixes of variable names and their meaning, the longer ones first; the prefix names the group. */
const PARTS: readonly (readonly [ending: string, part: ConnectionPart])[] = [
  ['HOSTNAME', 'host'],
  ['HOST', 'host'],
  ['SERVER', 'host'],
  ['ADDRESS', 'host'],
  ['ADDR', 'host'],
  ['PORT', 'port'],
  ['DATABASE_NAME', 'database'],
  ['DATABASE', 'database'],
  ['DB_NAME', 'database'],
  ['DBNAME', 'database'],
  ['NAME', 'database'],
  ['DB', 'database'],
  ['USERNAME', 'user'],
  ['USER_NAME', 'user'],
  ['USER', 'user'],
  ['LOGIN', 'user'],
  ['PASSWORD', 'password'],
  ['PASSWD', 'password'],
  ['PASS', 'password'],
  ['PWD', 'password'],
  ['SSL_MODE', 'sslmode'],
  ['SSLMODE', 'sslmode'],
  ['SSL', 'ssl'],
];

export const DEFAULT_PORT = 5432;

type Group = Map<ConnectionPart, string[]>;

/**
 * Finds connections that are spread over variables with a common prefix: DB_HOST, DB_PORT, DB_NAME; POSTGRES_DB, …
 * A group without a database, or with neither host nor user, names nothing.
 */
export function findSplitVariables(variables: Variables, target: ConnectionSettings): Mention[] {
  const values = effective(variables);
  const mentions: Mention[] = [];
  for (const [prefix, group] of groupsOf(values)) {
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

/**
 * Finds the part that a key of a configuration file stands for (`dbName`, `DB_HOST`, `spring.datasource.password`, `port`), with
 * the names of the groups that it may belong to: DB_NAME stands beside HOST, or beside DB_HOST.
 */
export function partOf(key: string): {
  readonly part: ConnectionPart | undefined;
  readonly prefixes: readonly string[];
} {
  const name = key
    .replace(/([a-z\d])([A-Z])/g, '$1_$2')
    .replace(/[-.]/g, '_')
    .toUpperCase()
    .replace(/(^|_)(DB|PG)(?=(?:HOST|PORT|USER|USERNAME|PASS|PASSWORD|PASSWD|DATABASE)$)/, '$1$2_');
  const endings = PARTS.filter(([ending]) => name === ending || name.endsWith(`_${ending}`));
  const longest = Math.max(...endings.map(([ending]) => ending.length));
  const part = endings.find(([ending]) => ending.length === longest)?.[1];
  const prefixes = endings.flatMap(([ending, each]) =>
    each === part ? [name.slice(0, -ending.length)] : [],
  );
  return { part, prefixes: part === undefined ? [name] : prefixes };
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

function groupsOf(values: Readonly<Record<string, string>>): Map<string, Group> {
  const groups = new Map<string, Group>();
  for (const name of Object.keys(values)) {
    for (const [ending, part] of PARTS) {
      // A prefix is required: HOST, PORT and USER alone mean other things.
      if (!name.endsWith(`_${ending}`)) continue;
      const prefix = name.slice(0, -ending.length);
      const group = groups.get(prefix) ?? new Map<ConnectionPart, string[]>();
      group.set(part, [...(group.get(part) ?? []), name]);
      groups.set(prefix, group);
    }
  }
  return groups;
}

function sameAddress(known: HostAndPort, other: HostAndPort | undefined): boolean {
  return known.host === other?.host && known.port === other.port;
}
