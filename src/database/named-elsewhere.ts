import { looksLikeConnection } from '../postgres/connection/connection-text.ts';
import { type ConnectionPart, groupsOf } from '../postgres/connection/split-names.ts';

/** Prefixes of variables that name a server of another kind. */
const OTHERS = /REDIS|VALKEY|MYSQL|MARIADB|MONGO|MSSQL|ORACLE|CLICKHOUSE/;

const PG_NAMES: readonly (readonly [part: ConnectionPart, name: string])[] = [
  ['host', 'PGHOST'],
  ['port', 'PGPORT'],
  ['database', 'PGDATABASE'],
  ['user', 'PGUSER'],
  ['password', 'PGPASSWORD'],
  ['sslmode', 'PGSSLMODE'],
];

/**
 * Finds variables that may name the target in a way that is not taken unasked: URLs by other names, and connections that are spread
 * over several variables.
 * @returns lines for a person, each with what to run; no value of a variable is in them.
 */
export function namedElsewhere(
  env: Readonly<Record<string, string | undefined>>,
  dotenv: ReadonlyMap<string, string>,
): string[] {
  const values = { ...Object.fromEntries(dotenv), ...env };
  const urls = Object.entries(values).filter(([, value]) => value && looksLikeConnection(value));
  const lines = urls.map(([name]) => `The variable ${name} names one: --url-env ${name}`);
  for (const [prefix, group] of groupsOf(Object.keys(values))) {
    const names = PG_NAMES.flatMap(([part, pgName]) => {
      const name = group.get(part)?.find((each) => values[each]);
      return name === undefined ? [] : [{ part, pgName, name }];
    });
    const isWhole = (['host', 'database', 'user'] as const).every((part) =>
      names.some((each) => each.part === part),
    );
    if (!isWhole || OTHERS.test(prefix)) continue;
    lines.push(
      `The variables ${prefix}… name one. Say so with:`,
      ...(names.some(({ name }) => env[name] === undefined) ? ['  set -a; . ./.env; set +a'] : []),
      ...names.map(({ pgName, name }) => `  export ${pgName}="$${name}"`),
    );
  }
  return lines;
}
