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

/** The names of the variables of one connection, by the part that they hold. */
export type VariableGroup = ReadonlyMap<ConnectionPart, readonly string[]>;

/** Groups the names of variables by their prefix: DB_HOST and DB_NAME are of one connection. */
export function groupsOf(names: Iterable<string>): Map<string, VariableGroup> {
  const groups = new Map<string, Map<ConnectionPart, string[]>>();
  for (const name of names) {
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
