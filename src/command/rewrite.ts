import { readDotenv } from '../database/locate.ts';
import type { Compare } from '../database/same-target.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import {
  type ConfigCopy,
  type ConfigFile,
  editConfigFiles,
  findConfigFiles,
  namesConfigFile,
  withOriginalPath,
} from './config-files.ts';
import { type Child, effective, labelOf, type Mention, type Undecided, type Variables } from './mention.ts';
import { findPgVariables, type PgVariables, setPgLogin, setPgVariables } from './pg-variables.ts';
import { fillPlaceholders, hasPlaceholders, urlOfEntry } from './placeholders.ts';
import { findSplitVariables } from './split-variables.ts';
import { findUrls, isSameServer } from './url-mentions.ts';

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
  readonly pg: Pick<PgVariables, 'free'>;
  /** Configuration files that the command gets copies of. */
  readonly files: readonly ConfigFile[];
}

export interface CommandLogin extends Pick<ConnectionSettings, 'user' | 'password' | 'database'> {
  /** Its client refuses a server that does not ask for SCRAM: `channel_binding=require`, `require_auth`. */
  readonly demandsScram?: boolean;
}

export interface Rewritten {
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** `DATABASE_URL`, `DIRECT_URL (from .env)`, `argument 3`: what named the target, or was a placeholder. */
  readonly rewritten: readonly string[];
  /** Variables that were set besides: those of a command that named nothing, and libpq's own for TLS and the password. */
  readonly added: readonly string[];
  readonly undecided: readonly Undecided[];
  /** Copies to write before the command runs: see placeConfigCopies(). */
  readonly copies: readonly ConfigCopy[];
  /** The command finds the clone at the target's own address: only placeholders were rewritten. */
  readonly byAddress: boolean;
}

const OTHER_DATABASE = 'names another database on the same server';

/** Finds every place that names the target. @throws SafemigrateError `INTERRUPTED` */
export async function findLogins(input: CommandInput, compare: Compare): Promise<Logins> {
  const { argv, environment, target } = input;
  const variables: Variables = { env: definedOnly(environment.env), dotenv: readDotenv(environment) };
  const found = findUrls(argv, variables, { ...environment, env: effective(variables) }, target.user);
  const inFiles = await findConfigFiles(argv, variables, environment, { target, compare });
  const undecided: Undecided[] = [...found.undecided, ...inFiles.undecided];
  const mentions: Mention[] = [...inFiles.mentions];
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
  const settings = [...mentions.map((mention) => mention.settings), ...(pg.free ? [pg.free] : [])];
  const { PGCHANNELBINDING: binding = '', PGREQUIREAUTH: methods = '' } = effective(variables);
  const logins = loginsOf(target, settings, asksForScram(binding, methods));
  return { logins, mentions, undecided, variables, pg, files: inFiles.files };
}

/** Tells whether the command leads to the target by something that is rewritten; else it may take its connection from a file. */
export function namesTarget(
  { argv }: Pick<CommandInput, 'argv'>,
  { mentions, variables }: Pick<Logins, 'mentions' | 'variables'>,
): boolean {
  return mentions.some(({ namesServer }) => namesServer) || hasPlaceholders(argv, variables);
}

/** The mention of another database that the clone has as well. */
function keepingDatabase(mention: Mention): Mention {
  const { database } = mention.settings;
  return { ...mention, apply: (child, entry) => mention.apply(child, { ...entry, database }) };
}

interface CloneLogin {
  /** Connects to the clone as the target's own user, or as the only one that exists there. */
  readonly clone: ConnectionSettings;
  /** The clone's server has the target's roles. */
  readonly sharesRoles: boolean;
}

/** Builds one route for each user. */
export function planRoutes(logins: readonly CommandLogin[], place: CloneLogin): Route[] {
  return logins.map(({ user, password, database, demandsScram }) => {
    const upstream = upstreamOf(place)(user, password);
    const scramPassword = demandsScram ? password : undefined;
    return { user, database, upstream, entry: upstream, scramPassword };
  });
}

/** Returns how a user logs in to the clone. */
export function upstreamOf({ clone, sharesRoles }: CloneLogin) {
  const { password: _clonePassword, ...place } = clone;
  return (user: string, password?: string): ConnectionSettings =>
    sharesRoles ? { ...place, user, ...(password === undefined ? {} : { password }) } : clone;
}

/**
 * Prepares a command that finds its clone at the target's own address. If nothing names the target to it, it gets the variables that offer
 * the clone.
 */
export function commandByAddress(
  input: CommandInput,
  logins: Logins,
  routes: readonly Pick<Route, 'user' | 'entry'>[],
): Rewritten {
  const { variables } = logins;
  const entryOf = entryAmong(routes);
  const child: Child = { argv: [...input.argv], env: { ...variables.env }, edits: new Map() };
  fillPlaceholders(child, variables, entryOf(input.target), withOriginalPath);
  const rewritten = differences(input.argv, variables, child);
  offerTarget(child, input, logins, entryOf);
  const added = differences(input.argv, variables, child).filter((name) => !rewritten.includes(name));
  return { argv: child.argv, env: child.env, rewritten, added, undecided: [], copies: [], byAddress: true };
}

function entryAmong(routes: readonly Pick<Route, 'user' | 'entry'>[]) {
  const [first] = routes;
  if (!first) throw new Error('there is no route into the clone');
  return ({ user }: ConnectionSettings) => (routes.find((route) => route.user === user) ?? first).entry;
}

/** Rewrites the command: the routes' entries replace the target. */
export function rewriteCommand(input: CommandInput, logins: Logins, routes: readonly Route[]): Rewritten {
  const { mentions, undecided, variables, files } = logins;
  const entryOf = entryAmong(routes);
  const child: Child = { argv: [...input.argv], env: { ...variables.env }, edits: new Map() };
  for (const mention of mentions.toReversed()) mention.apply(child, entryOf(mention.settings));
  // The paths of the copies come into them, so that they have to be variables of the command itself.
  for (const [name, value] of variables.dotenv)
    if (namesConfigFile([value]) && !(name in child.env)) child.env[name] = value;
  fillPlaceholders(child, variables, entryOf(input.target));
  const rewritten = differences(input.argv, variables, child);
  setOthers(child, input, logins, entryOf);
  const added = differences(input.argv, variables, child).filter((name) => !rewritten.includes(name));
  const { environment, target } = input;
  const copies = editConfigFiles(files, child, { ...environment, env: effective(variables) }, target);
  const { argv, env } = child;
  const inFiles = files.map(({ name }) => `${name} (a copy)`);
  const names = [...rewritten, ...inFiles];
  return { argv, env, rewritten: names, added, undecided, copies, byAddress: false };
}

/**
 * Sets the variables that are not rewritten. Some programs refuse a second connection beside the one they have, so that the command
 * gets none if it names the target itself.
 */
function setOthers(
  child: Child,
  input: CommandInput,
  logins: Logins,
  entryOf: (settings: ConnectionSettings) => ConnectionSettings,
): void {
  const { mentions, variables, pg } = logins;
  const needsPassword = mentions.some(({ lacksPassword }) => lacksPassword);
  offerTarget(child, input, logins, entryOf);
  if (pg.free && namesServer(logins))
    setPgLogin(child, entryOf(pg.free), effective(variables), needsPassword);
}

/** Sets the variable of the URL if it names something else, and what offers the target to a command that does not name it. */
function offerTarget(
  child: Child,
  { argv, urlVariable, target }: CommandInput,
  logins: Logins,
  entryOf: (settings: ConnectionSettings) => ConnectionSettings,
): void {
  const { mentions, variables, pg } = logins;
  const values = effective(variables);
  const isNamed = mentions.some(({ label }) => label === labelOf(urlVariable, variables));
  if (!isNamed && (values[urlVariable] || !namesTarget({ argv }, logins)))
    child.env[urlVariable] = urlOfEntry(entryOf(target));
  if (!pg.free || namesServer(logins)) return;
  const entry = entryOf(pg.free);
  setPgVariables(child, entry, values, isSameServer(target, entry));
}

function namesServer({ mentions }: Pick<Logins, 'mentions'>): boolean {
  return mentions.some((mention) => mention.namesServer);
}

function asksForScram(binding = '', methods = ''): boolean {
  return binding === 'require' || /^(?!!).*scram/.test(methods);
}

function loginsOf(
  target: ConnectionSettings,
  others: readonly ConnectionSettings[],
  allDemandScram: boolean,
): CommandLogin[] {
  const logins = new Map<string, CommandLogin>();
  const { database } = target;
  for (const { user, password, parameters } of [target, ...others]) {
    const known = logins.get(user);
    const withPassword = known?.password ?? password;
    const demandsScram =
      allDemandScram ||
      known?.demandsScram === true ||
      asksForScram(parameters.channel_binding, parameters.require_auth);
    logins.set(user, {
      user,
      database,
      ...(withPassword === undefined ? {} : { password: withPassword }),
      ...(demandsScram ? { demandsScram } : {}),
    });
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

/**
 * A way into the clone for one login of the command (a migration user and an application user are two routes). The command connects to
 * `entry`, which is forwarded to `upstream`. Without a proxy in between, both are the clone itself.
 */
export interface Route {
  /** The user with which the command logs in; it is not rewritten. */
  readonly user: string;
  /** The database's name as the command knows it. */
  readonly database: string;
  readonly upstream: ConnectionSettings;
  readonly entry: ConnectionSettings;
  /** At the target's address its client proves this by SCRAM; without it, it enters with any password. */
  readonly scramPassword?: string | undefined;
}
