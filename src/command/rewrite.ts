import { readDotenv } from '../database/locate.ts';
import type { Compare } from '../database/same-target.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { formatUrl } from '../postgres/connection/connection-url.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import { type Child, effective, labelOf, type Mention, type Undecided, type Variables } from './mention.ts';
import { findPgVariables } from './pg-variables.ts';
import { fillPlaceholders } from './placeholders.ts';
import type { Route } from './route.ts';
import { findSplitVariables } from './split-variables.ts';
import { findUrls } from './url-mentions.ts';

/** The command as the user gave it. */
export interface CommandInput {
  readonly argv: readonly string[];
  readonly environment: Environment;
  readonly target: ConnectionSettings;
  /** The variable from which the command reads its URL; always set. */
  readonly urlVariable: string;
  /** Other databases of the target's server that the command gets from the clone. */
  readonly databases: readonly string[];
}

/** The places that name the target to the command, and the logins there. */
export interface Logins {
  /** The target's own login first, then one for each further user. */
  readonly logins: readonly CommandLogin[];
  readonly mentions: readonly Mention[];
  readonly undecided: readonly Undecided[];
  readonly variables: Variables;
}

export type CommandLogin = Pick<ConnectionSettings, 'user' | 'password' | 'database'>;

export interface Rewritten {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** `DATABASE_URL`, `DIRECT_URL (from .env)`, `argument 3`: what was rewritten. */
  readonly rewritten: readonly string[];
  readonly undecided: readonly Undecided[];
}

const OTHER_DATABASE = 'names another database on the same server';

/** Finds every place that names the target. @throws SafemigrateError `INTERRUPTED` */
export async function findLogins(input: CommandInput, compare: Compare): Promise<Logins> {
  const { argv, environment, target } = input;
  const variables: Variables = { env: definedOnly(environment.env), dotenv: readDotenv(environment) };
  const found = findUrls(argv, variables, { ...environment, env: effective(variables) }, target.user);
  const undecided: Undecided[] = [...found.undecided];
  const mentions: Mention[] = [];
  const split = findSplitVariables(variables, target);
  const pg = await findPgVariables(variables, environment, target, compare);
  if (pg.undecided) undecided.push(pg.undecided);
  for (const mention of [...found.mentions, ...split]) {
    const verdict = await compare(mention.settings);
    // The variable of the target's URL is rewritten whatever its value was.
    const isUrlVariable = mention.label === labelOf(input.urlVariable, variables);
    if (verdict.kind === 'same') mentions.push(mention);
    else if (verdict.kind === 'other-database' && input.databases.includes(mention.settings.database))
      mentions.push(keepingDatabase(mention));
    else if (isUrlVariable) continue;
    else if (verdict.kind === 'other-database')
      undecided.push({ name: mention.label, reason: OTHER_DATABASE });
    else if (verdict.kind === 'undecided') undecided.push({ name: mention.label, reason: verdict.reason });
  }
  undecided.push(...bareNames(argv, target));
  if (pg.mention) mentions.push(pg.mention);
  return { logins: loginsOf(target, mentions), mentions, undecided, variables };
}

/** The mention of another database that the clone has as well. */
function keepingDatabase(mention: Mention): Mention {
  const { database } = mention.settings;
  return { ...mention, apply: (child, entry) => mention.apply(child, { ...entry, database }) };
}

/**
 * Builds one route for each user.
 * @param clone connects to the clone as the target's own user, or as the only one that exists there.
 * @param sharesRoles the clone's server has the target's roles.
 */
export function planRoutes(
  logins: readonly CommandLogin[],
  clone: ConnectionSettings,
  sharesRoles: boolean,
): Route[] {
  const { password: _clonePassword, ...place } = clone;
  return logins.map(({ user, password, database }) => {
    const own = { ...place, user, ...(password === undefined ? {} : { password }) };
    const upstream = sharesRoles ? own : clone;
    return { user, database, upstream, entry: upstream };
  });
}

/** Rewrites the command: the routes' entries replace the target. */
export function rewriteCommand(
  input: CommandInput,
  { mentions, undecided, variables }: Logins,
  routes: readonly Route[],
): Rewritten {
  const [first] = routes;
  if (!first) throw new Error('there is no route into the clone');
  const child: Child = { argv: [...input.argv], env: { ...variables.env } };
  for (const mention of mentions.toReversed()) {
    const route = routes.find(({ user }) => user === mention.settings.user) ?? first;
    mention.apply(child, route.entry);
  }
  const { urlVariable } = input;
  const inUse = mentions.some(({ label }) => label === labelOf(urlVariable, variables));
  if (!inUse) child.env[urlVariable] = formatUrl(first.entry);
  fillPlaceholders(child, variables, first.entry);
  return { ...child, rewritten: differences(input.argv, variables, child), undecided };
}

function loginsOf(target: ConnectionSettings, mentions: readonly Mention[]): CommandLogin[] {
  const logins = new Map<string, CommandLogin>();
  const { database } = target;
  for (const { user, password } of [target, ...mentions.map(({ settings }) => settings)]) {
    const known = logins.get(user);
    const withPassword = known?.password ?? password;
    logins.set(user, { user, database, ...(withPassword === undefined ? {} : { password: withPassword }) });
  }
  return [...logins.values()];
}

/** `psql -h db shop`: only psql knows what such words mean. */
function bareNames(argv: readonly string[], { database }: ConnectionSettings): Undecided[] {
  const reason =
    "it is the target's name; if it is meant as the database, write {safemigrate:database} there, and " +
    '{safemigrate:host} and {safemigrate:port} where host and port are arguments too';
  return argv.flatMap((argument, index) =>
    index > 0 && (argument === database || argument.endsWith(`=${database}`) || argument === `-d${database}`)
      ? [{ name: `argument ${index}`, reason }]
      : [],
  );
}

function differences(argv: readonly string[], variables: Variables, child: Child): string[] {
  const names = new Set([...Object.keys(variables.env), ...Object.keys(child.env)]);
  const changed = [...names].filter((name) => variables.env[name] !== child.env[name]);
  return [
    ...changed.sort().map((name) => labelOf(name, variables)),
    ...child.argv.flatMap((argument, index) => (argument === argv[index] ? [] : [`argument ${index}`])),
  ];
}

function definedOnly(env: Environment['env']): Record<string, string> {
  return Object.fromEntries(
    Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}
