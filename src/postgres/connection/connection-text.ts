import { SafemigrateError } from '../../errors.ts';
import { looksLikeNpgsql, readNpgsql, writeNpgsql } from './npgsql-text.ts';

/**
 * The parts of a connection written as one string, without defaults: a URL, a JDBC URL, libpq's `keyword=value` pairs, or the pairs
 * of Npgsql, which semicolons separate. Keys are libpq's names; lists of hosts and ports are separated by commas.
 */
export interface ConnectionText {
  readonly form: 'url' | 'jdbc' | 'keywords' | 'semicolons';
  /** The scheme before `://`: `postgres`, `postgresql+psycopg2`, …; empty for keywords. */
  readonly scheme: string;
  /** `host`, `port`, `user`, `password`, `dbname` and every other parameter, in the order of the text. */
  readonly values: ReadonlyMap<string, string>;
  /** A host before the path that `?host=…` overrides: some programs require one beside the folder of a socket. */
  readonly placeholder?: string;
  /** For semicolons: the pairs that have no name in libpq, as they were written. */
  readonly others?: readonly string[];
}

/** Pattern of the schemes that stand for PostgreSQL; some libraries of Python call them by the driver. */
export const SCHEMES = String.raw`(?:postgres(?:ql)?(?:ext)?|postgis|pg|asyncpg|psycopg[23]?)(?:\+\w+)?`;
const SCHEME = new RegExp(`^(?:jdbc:)?${SCHEMES}:`, 'i');
const KEYWORDS = /^\s*[a-z_]+\s*=/;

/** Tells whether the text is meant to be a connection to PostgreSQL; it may still be invalid. */
export function looksLikeConnection(text: string): boolean {
  if (SCHEME.test(text)) return text.includes('://') || /^jdbc:/i.test(text);
  if (looksLikeNpgsql(text)) return true;
  return KEYWORDS.test(text) && /(^|\s)(host|hostaddr|dbname|service)\s*=/.test(text);
}

/**
 * Parses a connection text.
 * @throws SafemigrateError `CONFIGURATION`, without any of the text: in an invalid one any part may be the password.
 */
export function readConnectionText(text: string): ConnectionText {
  const trimmed = text.trim();
  try {
    if (/^jdbc:/i.test(trimmed)) return readJdbc(trimmed);
    if (/^[a-z][a-z0-9+.-]*:\/\//i.test(trimmed)) return readUrl(trimmed);
    if (looksLikeNpgsql(trimmed)) return { form: 'semicolons', scheme: '', ...readNpgsql(trimmed) };
    if (KEYWORDS.test(trimmed)) return { form: 'keywords', scheme: '', values: readKeywords(trimmed) };
    throw new Wrong('it is neither a URL nor keyword=value pairs');
  } catch (error) {
    if (!(error instanceof Wrong)) throw error;
    throw new SafemigrateError('CONFIGURATION', `This is not a connection to PostgreSQL: ${error.message}.`, {
      hint: 'Write it as postgresql://user:password@host:port/database, with special characters percent-encoded (@ is %40, / is %2F, % is %25).',
    });
  }
}

/** Returns the text with every password replaced, even if the text is invalid. */
export function withoutPassword(text: string): string {
  return text
    .replace(/^([a-z][a-z0-9+.:-]*:\/\/)(.*)@/is, (_all, scheme: string, credentials: string) => {
      const user = credentials.split(':', 1)[0] ?? '';
      return `${scheme}${user}${credentials === user ? '' : ':***'}@`;
    })
    .replace(/(\b(?:(?:ssl ?)?password|pwd|psw)\s*=\s*)('(?:\\.|[^'])*'?|"[^"]*"?|[^&;\s]*)/gi, '$1***');
}

/** A mistake in the text, as the end of a sentence that never quotes a value. */
class Wrong extends Error {}

function readUrl(text: string): ConnectionText {
  const scheme = SCHEME.exec(text);
  if (!scheme) throw new Wrong('its scheme is neither postgres:// nor postgresql://');
  const at = text.indexOf('://');
  return { form: 'url', scheme: text.slice(0, at), ...readAuthority(text.slice(at + 3)) };
}

function readJdbc(text: string): ConnectionText {
  const scheme = SCHEME.exec(text);
  if (!scheme) throw new Wrong('it is a JDBC URL for another database system');
  const rest = text.slice(scheme[0].length);
  const parts = readAuthority(rest.startsWith('//') ? rest.slice(2) : `/${rest}`);
  return { form: 'jdbc', scheme: scheme[0].slice(0, -1), ...parts };
}

/** Parses everything after `://` by libpq's rules: the first `@` before any `/` ends the credentials. */
function readAuthority(text: string): Pick<ConnectionText, 'values' | 'placeholder'> {
  const values = new Map<string, string>();
  const [, credentials, afterCredentials = text] = /^([^@/]*)@(.*)$/s.exec(text) ?? [];
  if (credentials !== undefined) {
    const [, user = '', password] = /^([^:]*)(?::(.*))?$/s.exec(credentials) ?? [];
    set(values, 'user', decode(user));
    set(values, 'password', decode(password ?? ''));
  }
  const [, authority = '', path, query] = /^([^/?]*)(?:\/([^?]*))?(?:\?(.*))?$/s.exec(afterCredentials) ?? [];
  if (authority !== '') readHosts(authority, values);
  const host = values.get('host');
  set(values, 'dbname', decode(path ?? ''));
  for (const pair of (query ?? '').split('&').filter((part) => part !== '')) {
    const [, key = pair, value = ''] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
    set(values, decode(key), decode(value));
  }
  return authority === '' || values.get('host') === host ? { values } : { values, placeholder: authority };
}

function readHosts(authority: string, values: Map<string, string>): void {
  const hosts: string[] = [];
  const ports: string[] = [];
  for (const part of authority.split(',')) {
    const match = /^(?:\[([^\]]+)\]|([^:[\]]*))(?::([0-9]*))?$/.exec(part);
    if (!match) throw new Wrong('the part for host and port cannot be read');
    const host = decode(match[1] ?? match[2] ?? '');
    if (host.includes('@') && !host.startsWith('@'))
      throw new Wrong('there is an @ in the host; in a password it must be written %40');
    hosts.push(host);
    ports.push(match[3] ?? '');
  }
  set(values, 'host', hosts.join(','));
  if (ports.some((port) => port !== '')) values.set('port', ports.join(','));
}

function readKeywords(text: string): Map<string, string> {
  const values = new Map<string, string>();
  const pair = /\s*([a-zA-Z_]+)\s*=\s*(?:'((?:\\.|[^'\\])*)'|((?:\\.|[^\s\\'])(?:\\.|[^\s\\])*)?)(?=\s|$)/sy;
  while (pair.lastIndex < text.length) {
    const match = pair.exec(text);
    if (!match) throw new Wrong('the keyword=value pairs cannot be read');
    set(values, match[1] ?? '', (match[2] ?? match[3] ?? '').replace(/\\(.)/gs, '$1'));
  }
  return values;
}

function set(values: Map<string, string>, key: string, value: string): void {
  if (value !== '') values.set(key, value);
}

function decode(text: string): string {
  if (/%00|%(?![0-9a-f]{2})/i.test(text))
    throw new Wrong('it holds a % that is not followed by two hex digits');
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Wrong('its percent-encoding is not valid UTF-8');
  }
}

/** Writes the values in the form in which they were read. */
export function writeConnectionText(text: ConnectionText): string {
  if (text.form === 'semicolons') return writeNpgsql(text.values, text.others ?? []);
  return text.form === 'keywords' ? writeKeywords(text.values) : writeUrl(text);
}

function writeUrl({ form, scheme, values, placeholder = '' }: ConnectionText): string {
  const hosts = values.get('host')?.split(',') ?? [];
  const ports = values.get('port')?.split(',') ?? [];
  // Few programs accept the folder of a Unix socket as the host; nearly all accept it as a parameter.
  const named = !hosts.some((host) => /[/@]/.test(host));
  const portsAreNamed = named && (ports.length <= 1 || ports.length === hosts.length);
  const authority = hosts
    .map((host, index) => {
      const port = portsAreNamed ? (ports[index] ?? ports[0]) : undefined;
      return `${host.includes(':') ? `[${host}]` : encode(host)}${port ? `:${port}` : ''}`;
    })
    .join(',');
  const elsewhere = new Set(['dbname', ...(form === 'url' ? ['user', 'password'] : [])]);
  if (named) elsewhere.add('host');
  if (portsAreNamed) elsewhere.add('port');
  const inParameters = [...values].filter(([key]) => !elsewhere.has(key));
  const query = inParameters.map(([key, value]) => `${encode(key)}=${encode(value)}`).join('&');
  const credentials = form === 'url' ? writeCredentials(values) : '';
  const portAlone = portsAreNamed && hosts.length === 0 && ports.length > 0 ? `:${ports[0]}` : '';
  return `${scheme}://${credentials}${named ? authority || portAlone : placeholder}/${encode(values.get('dbname') ?? '')}${query === '' ? '' : `?${query}`}`;
}

function writeCredentials(values: ReadonlyMap<string, string>): string {
  const user = values.get('user');
  const password = values.get('password');
  if (user === undefined && password === undefined) return '';
  return `${encode(user ?? '')}${password === undefined ? '' : `:${encode(password)}`}@`;
}

/** Also encodes the characters that encodeURIComponent leaves, since shells interpret them. */
function encode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16)}`,
  );
}

function writeKeywords(values: ReadonlyMap<string, string>): string {
  return [...values].map(([key, value]) => `${key}=${quote(value)}`).join(' ');
}

function quote(value: string): string {
  return /^[^\s'\\]+$/.test(value) ? value : `'${value.replace(/['\\]/g, '\\$&')}'`;
}
