import { parse } from 'dotenv';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { parseSettings } from '../postgres/connection/connection-url.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import { namedElsewhere } from './named-elsewhere.ts';
import { DEFAULT_URL_VARIABLE } from './target.ts';

export interface Located {
  readonly settings: ConnectionSettings;
  /** `--url`, `DATABASE_URL`, `PG* variables` or `DATABASE_URL in .env`. */
  readonly source: string;
}

/**
 * Locates the target: `--url`, else the variable named by `--url-env`, else the PG* variables, else the
 * same variable in `./.env`. @throws SafemigrateError `CONFIGURATION` if it is wrong, or there is none.
 */
export function locateTarget(flags: Parameters<typeof findTarget>[0], environment: Environment): Located {
  const located = findTarget(flags, environment);
  if (located) return located;
  const variable = flags.urlEnv ?? DEFAULT_URL_VARIABLE;
  throw new SafemigrateError('CONFIGURATION', 'No database is named, so there is nothing to rehearse on.', {
    hint: [
      ...namedElsewhere(environment.env, readDotenv(environment)),
      'Name it in one of four ways:',
      '  --url postgresql://user:password@host:port/database',
      `  the variable ${variable} (another one with --url-env NAME)`,
      '  the variables PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE, or PGSERVICE',
      `  ${variable}=… in the file .env of this folder`,
    ].join('\n'),
  });
}

/** Like locateTarget(). @returns undefined if no target is named. */
export function findTarget(
  {
    url,
    urlEnv: variable = DEFAULT_URL_VARIABLE,
  }: { readonly url?: string | null | undefined; readonly urlEnv?: string | undefined },
  environment: Environment,
): Located | undefined {
  const { env } = environment;
  if (url != null) return from('--url', url, environment);
  if (env[variable]) return from(variable, env[variable], environment);
  if (env.PGDATABASE || env.PGHOST || env.PGSERVICE) return from('PG* variables', undefined, environment);
  const inFile = readDotenv(environment).get(variable);
  return inFile ? from(`${variable} in .env`, inFile, environment) : undefined;
}

/** Reads the variables of `./.env`; none if there is no such file. */
export function readDotenv(environment: Environment): Map<string, string> {
  return parseDotenv(environment.readFile(`${environment.folder}/.env`) ?? '', environment.env);
}

function from(source: string, text: string | undefined, environment: Environment): Located {
  try {
    return { settings: parseSettings(text, environment), source };
  } catch (error) {
    if (!(error instanceof SafemigrateError)) throw error;
    throw new SafemigrateError(error.code, `${source}: ${messageOf(error)}`, {
      ...(error.hint === undefined ? {} : { hint: error.hint }),
    });
  }
}

/**
 * Reads the variables of a `.env` file as dotenv does. As with dotenv-expand, `${NAME}` and `${NAME:-default}` are replaced, from
 * `env` first and then from the variables before, and `\$` is a `$`; a bare `$NAME` stays as it is, since passwords contain `$`.
 */
export function parseDotenv(
  text: string,
  env: Readonly<Record<string, string | undefined>>,
): Map<string, string> {
  const values = new Map<string, string>();
  const expand = (_all: string, name?: string, fallback?: string): string =>
    name === undefined ? '$' : env[name] || values.get(name) || fallback || '';
  for (const [name, value] of Object.entries(parse(text)))
    values.set(name, value.replace(/\\\$|\$\{(\w+)(?::-([^}]*))?\}/g, expand));
  return values;
}
