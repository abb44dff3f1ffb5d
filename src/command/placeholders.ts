import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { writeConnectionText } from '../postgres/connection/connection-text.ts';
import { connectionValues, formatUrl } from '../postgres/connection/connection-url.ts';
import { namesConfigFile } from './config-files.ts';
import { type Child, effective, type Variables } from './mention.ts';

/** Not every driver knows sslmode, and none is needed for a proxy that speaks without TLS. */
export function urlOfEntry(entry: ConnectionSettings): string {
  return formatUrl(withoutMode(entry));
}

const PLACEHOLDER = /\{safemigrate:(url|jdbc-url|host|port|user|password|database)\}/g;

/** Tells whether an argument or a variable contains one. */
export function hasPlaceholders(argv: readonly string[], variables: Variables): boolean {
  const texts = [...argv, ...Object.values(effective(variables))];
  return namesConfigFile(texts) || texts.some((text) => text.search(PLACEHOLDER) >= 0);
}

/** Replaces the user's placeholders, in arguments and variables, by the clone's connection, and does more with each text if asked to. */
export function fillPlaceholders(
  child: Child,
  variables: Variables,
  entry: ConnectionSettings,
  more = (text: string) => text,
): void {
  const values = placeholderValues(entry);
  const fill = (text: string) =>
    more(text.replace(PLACEHOLDER, (_all, name: keyof typeof values) => values[name]));
  for (const [index, argument] of child.argv.entries()) child.argv[index] = fill(argument);
  for (const [name, value] of Object.entries({ ...effective(variables), ...child.env })) {
    const filled = fill(value);
    if (filled !== value) child.env[name] = filled;
  }
}

function placeholderValues(entry: ConnectionSettings) {
  const [first] = entry.hosts;
  const jdbc = writeConnectionText({
    form: 'jdbc',
    scheme: 'jdbc:postgresql',
    values: connectionValues(withoutMode(entry)),
  });
  return {
    url: urlOfEntry(entry),
    'jdbc-url': jdbc,
    host: first?.host ?? '',
    port: String(first?.port ?? ''),
    user: entry.user,
    password: entry.password ?? '',
    database: entry.database,
  };
}

function withoutMode(entry: ConnectionSettings): ConnectionSettings {
  return entry.sslmode === 'disable' ? { ...entry, sslmode: 'prefer' } : entry;
}
