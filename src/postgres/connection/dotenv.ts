// One assignment: `export` or not, a value in quotes (which may go over lines) or bare up to a comment.
const ASSIGNMENT =
  /^[ \t]*(?:export[ \t]+)?([\w.-]+)(?:[ \t]*=[ \t]*|:[ \t]+)(?:'([^']*)'|"((?:\\[\s\S]|[^"\\])*)"|`([^`]*)`|([^#\r\n]*))[ \t]*(?:#[^\r\n]*)?\r?$/gm;

/**
 * The variables of a `.env` file, as the dotenv library reads it. `${NAME}` and `${NAME:-default}` are replaced, from
 * `env` first and then from the lines before, except in single quotes; a bare `$` stays, since passwords hold it.
 */
export function parseDotenv(
  text: string,
  env: Readonly<Record<string, string | undefined>>,
): Map<string, string> {
  const values = new Map<string, string>();
  const expand = (value: string): string =>
    value.replace(/\\\$|\$\{(\w+)(?::-([^}]*))?\}/g, (all: string, name?: string, fallback?: string) => {
      if (name === undefined) return all === '\\$' ? '$' : all;
      return env[name] || values.get(name) || fallback || '';
    });
  for (const [, name = '', single, double, backticks, bare] of text.matchAll(ASSIGNMENT)) {
    if (single !== undefined) values.set(name, single);
    else if (double !== undefined)
      values.set(name, expand(double.replaceAll('\\n', '\n').replaceAll('\\r', '\r')));
    else values.set(name, expand(backticks ?? (bare ?? '').trim()));
  }
  return values;
}
