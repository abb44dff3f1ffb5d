import type { Compare } from '../database/same-target.ts';
import { messageOf } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { connectionValues, parseSettings, VARIABLES } from '../postgres/connection/connection-url.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import { type Child, effective, type Mention, type Undecided, type Variables } from './mention.ts';
import { ABOUT_SERVER, isSameServer } from './url-mentions.ts';

const ABOUT_PLACE = ['PGHOST', 'PGHOSTADDR', 'PGPORT', 'PGDATABASE', 'PGSERVICE'];
const NAME_OF_SETTINGS = 'PG* variables';
/** Set only if the command has no value of its own, since they name neither server nor user. */
const OPTIONAL = new Set(['options', 'application_name', 'connect_timeout']);

export interface PgVariables {
  /** They name the target. */
  readonly mention?: Mention;
  readonly undecided?: Undecided;
  /** They name no server, so that they can lead a command that names nothing: as this user. null: they name one. */
  readonly free: ConnectionSettings | null;
}

/** Finds what libpq's own variables name. They are not changed if that is something other than the target. */
export async function findPgVariables(
  variables: Variables,
  environment: Environment,
  target: ConnectionSettings,
  compare: Compare,
): Promise<PgVariables> {
  const values = effective(variables);
  if (!ABOUT_PLACE.some((name) => values[name]))
    return { free: { ...target, user: values.PGUSER || target.user } };
  const namesDatabase = Boolean(values.PGDATABASE || values.PGSERVICE);
  let settings: ConnectionSettings;
  try {
    const read = parseSettings(undefined, { ...environment, env: values });
    // Without a database: libpq would use the user's name, which is never intended.
    settings = namesDatabase ? read : { ...read, database: target.database };
  } catch (error) {
    return { undecided: { name: NAME_OF_SETTINGS, reason: messageOf(error) }, free: null };
  }
  const verdict = await compare(settings);
  switch (verdict.kind) {
    case 'same':
      return { mention: mention(settings, values), free: null };
    case 'other-database':
      return {
        undecided: { name: NAME_OF_SETTINGS, reason: 'names another database on the same server' },
        free: null,
      };
    case 'other-server':
      return { free: null };
    case 'undecided':
      return { undecided: { name: NAME_OF_SETTINGS, reason: verdict.reason }, free: null };
  }
}

function mention(settings: ConnectionSettings, values: Readonly<Record<string, string>>): Mention {
  return {
    label: NAME_OF_SETTINGS,
    settings,
    namesServer: true,
    lacksPassword: false,
    apply: (child, entry) => setPgVariables(child, entry, values, isSameServer(settings, entry)),
  };
}

/** Leads a command that names no connection, as libpq does, to the entry. */
export function setPgVariables(
  child: Child,
  entry: ConnectionSettings,
  values: Readonly<Record<string, string>>,
  keepsServer: boolean,
): void {
  const wanted = connectionValues(entry);
  // A service takes precedence over the variables, so it would redirect to the target.
  delete child.env.PGSERVICE;
  for (const [key, variable] of Object.entries(VARIABLES)) {
    if (key === 'service' || key === 'passfile') continue;
    const value = wanted.get(key);
    if (value !== undefined && !(OPTIONAL.has(key) && values[variable])) child.env[variable] = value;
    else if (value === undefined && !OPTIONAL.has(key) && !keepsServer) delete child.env[variable];
  }
  if (!wanted.has('hostaddr')) delete child.env.PGHOSTADDR;
}

/**
 * Completes a connection that is named elsewhere: libpq takes from its variables what a URL or arguments leave open. Of these,
 * PGSSLMODE alone is new to the command, since Go's lib/pq demands TLS where nothing says otherwise.
 */
export function setPgLogin(
  child: Child,
  entry: ConnectionSettings,
  values: Readonly<Record<string, string>>,
  needsPassword: boolean,
): void {
  const wanted = connectionValues(entry);
  if (entry.password !== undefined && (needsPassword || values.PGPASSWORD))
    child.env.PGPASSWORD = entry.password;
  for (const [key, variable] of Object.entries(VARIABLES)) {
    if (!ABOUT_SERVER.test(key) || key === 'service' || key === 'passfile') continue;
    const value = wanted.get(key);
    if (value === undefined) delete child.env[variable];
    else child.env[variable] = value;
  }
}
