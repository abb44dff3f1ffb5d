import type { Compare } from '../database/same-target.ts';
import { messageOf } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { connectionValues, parseSettings, VARIABLES } from '../postgres/connection/connection-url.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import { effective, type Mention, type Undecided, type Variables } from './mention.ts';
import { isSameServer } from './url-mentions.ts';

const ABOUT_PLACE = ['PGHOST', 'PGHOSTADDR', 'PGPORT', 'PGDATABASE', 'PGSERVICE'];
const NAME_OF_SETTINGS = 'PG* variables';
/** Set only if the command has no value of its own, since they name neither server nor user. */
const OPTIONAL = new Set(['options', 'application_name', 'connect_timeout']);

/**
 * libpq's own variables. A command that names no database uses them, so they are set to the clone even if they were not set; they
 * are not changed if they name something other than the target.
 */
export async function findPgVariables(
  variables: Variables,
  environment: Environment,
  target: ConnectionSettings,
  compare: Compare,
): Promise<{ mention?: Mention; undecided?: Undecided }> {
  const values = effective(variables);
  const named = ABOUT_PLACE.some((name) => values[name]);
  if (!named) return { mention: mention({ ...target, user: values.PGUSER || target.user }, values) };
  const namesDatabase = Boolean(values.PGDATABASE || values.PGSERVICE);
  let settings: ConnectionSettings;
  try {
    const read = parseSettings(undefined, { ...environment, env: values });
    // Without a database: libpq would use the user's name, which is never intended.
    settings = namesDatabase ? read : { ...read, database: target.database };
  } catch (error) {
    return { undecided: { name: NAME_OF_SETTINGS, reason: messageOf(error) } };
  }
  const verdict = await compare(settings);
  switch (verdict.kind) {
    case 'same':
      return { mention: mention(settings, values) };
    case 'other-database':
      return { undecided: { name: NAME_OF_SETTINGS, reason: 'names another database on the same server' } };
    case 'other-server':
      return {};
    case 'undecided':
      return { undecided: { name: NAME_OF_SETTINGS, reason: verdict.reason } };
  }
}

function mention(settings: ConnectionSettings, values: Readonly<Record<string, string>>): Mention {
  return {
    label: NAME_OF_SETTINGS,
    settings,
    apply: (child, entry) => {
      const wanted = connectionValues(entry);
      const keepsServer = isSameServer(settings, entry);
      // A service takes precedence over the variables, so it would redirect to the target.
      delete child.env.PGSERVICE;
      for (const [key, variable] of Object.entries(VARIABLES)) {
        if (key === 'service' || key === 'passfile') continue;
        const value = wanted.get(key);
        if (value !== undefined && !(OPTIONAL.has(key) && values[variable])) child.env[variable] = value;
        else if (value === undefined && !OPTIONAL.has(key) && !keepsServer) delete child.env[variable];
      }
      if (!wanted.has('hostaddr')) delete child.env.PGHOSTADDR;
    },
  };
}
