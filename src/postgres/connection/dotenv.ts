import { parse } from 'dotenv';

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
