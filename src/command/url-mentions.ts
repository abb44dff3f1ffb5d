import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import {
  type ConnectionText,
  looksLikeConnection,
  readConnectionText,
  SCHEMES,
  writeConnectionText,
} from '../postgres/connection/connection-text.ts';
import { connectionValues, parseSettings, VARIABLES } from '../postgres/connection/connection-url.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import { type JdbcLogin, loginOfArgument, loginOfVariable } from './jdbc-login.ts';
import { type Child, effective, labelOf, type Mention, type Undecided, type Variables } from './mention.ts';

/** A value that is a single connection, perhaps after `--flag=`. */
const WHOLE = /^(\s*(?:-{1,2}[\w.-]*=|[\w.]+=(?=(?:jdbc:)?[a-z+\d]+:\/\/))?)([\s\S]*)$/i;
/** A URL inside other text, such as a shell's command or JSON. */
export const INSIDE = new RegExp(String.raw`\b(?:jdbc:)?${SCHEMES}:\/\/[^\s"'${'`'}<>|;\\]+`, 'gi');
const ALONE = new RegExp(String.raw`^(?:jdbc:)?${SCHEMES}:(?:\/\/)?[^"'\s]*$`, 'i');

const PG_NAMES = new Set(Object.values(VARIABLES));
/** Finds the PostgreSQL connections that are written as one string, in variables and arguments. */
export function findUrls(
  argv: readonly string[],
  variables: Variables,
  environment: Environment,
  defaultUser: string,
) {
  const mentions: Mention[] = [];
  const undecided: Undecided[] = [];
  const look = (text: string, label: string, apart: JdbcLogin, place: Place) => {
    for (const [start, end] of spans(text)) {
      try {
        const read = readConnectionText(text.slice(start, end));
        mentions.push(mention({ read, start, end, label, apart, place, environment, defaultUser }));
      } catch {
        undecided.push({
          name: label,
          reason: 'it looks like a connection to PostgreSQL, but cannot be read as one',
        });
      }
    }
  };
  const values = effective(variables);
  for (const [name, value] of Object.entries(values)) {
    if (!PG_NAMES.has(name))
      look(value, labelOf(name, variables), loginOfVariable(name, values, argv), inVariable(name, value));
  }
  for (const [index, value] of argv.entries()) {
    if (index > 0) look(value, `argument ${index}`, loginOfArgument(argv, values), inArgument(index));
  }
  return { mentions, undecided };
}

interface Place {
  read(child: Child): string;
  write(child: Child, text: string): void;
  /** All users of the machine can read arguments, so a password may appear there only if it did before. */
  readonly public: boolean;
}

function inVariable(name: string, value: string): Place {
  return {
    // A variable of .env is not in the environment until it is rewritten.
    read: (child) => child.env[name] ?? value,
    write: (child, text) => {
      child.env[name] = text;
    },
    public: false,
  };
}

function inArgument(index: number): Place {
  return {
    read: (child) => child.argv[index] ?? '',
    write: (child, text) => {
      child.argv[index] = text;
    },
    public: true,
  };
}

function spans(text: string): [number, number][] {
  const [, prefix = '', rest = ''] = WHOLE.exec(text) ?? [];
  const inner = rest.trimEnd();
  const start = prefix.length + rest.length - rest.trimStart().length;
  const isKeywords = looksLikeConnection(inner) && !inner.includes('://');
  const isUrl = ALONE.test(inner);
  if (looksLikeConnection(inner) && (isKeywords || isUrl)) return [[start, prefix.length + inner.length]];
  return [...text.matchAll(INSIDE)].map((match) => [match.index, match.index + match[0].length]);
}

interface Mentioned {
  read: ConnectionText;
  start: number;
  end: number;
  label: string;
  /** For a JDBC URL. */
  apart: JdbcLogin;
  place: Place;
  environment: Environment;
  defaultUser: string;
}

/** Replaces from the last to the first of a place, so that earlier positions stay valid. */
function mention(it: Mentioned): Mention {
  const { read, start, end, label, apart, place, environment } = it;
  const settings = parseSettings(completed(it), environment);
  return {
    label,
    settings,
    namesServer: true,
    lacksPassword: place.public && read.form !== 'jdbc' && !read.values.has('password'),
    apply: (child, entry) => {
      const text = place.read(child);
      const written = rewriteText(read, settings, entry, !place.public);
      place.write(child, text.slice(0, start) + written + text.slice(end));
      if (read.form !== 'jdbc') return;
      const { user, password } = apart;
      if (!read.values.has('user') && user && user.value !== entry.user) user.write(child, entry.user);
      const wanted = read.values.has('password') ? undefined : entry.password;
      if (wanted !== undefined && password?.value !== wanted) password?.write(child, wanted);
    },
  };
}

function completed({ read, apart, defaultUser }: Mentioned): ConnectionText {
  if (read.form !== 'jdbc') return read;
  const values = new Map(read.values);
  const add = (key: string, value: string | undefined) => {
    if (value && !values.has(key)) values.set(key, value);
  };
  add('user', apart.user?.value ?? defaultUser);
  add('password', apart.password?.value);
  return { ...read, values };
}

/** Parameters of the server's address, which are wrong or harmful for another server. */
export const ABOUT_SERVER =
  /^(ssl.+|channel_binding|hostaddr|target_session_attrs|targetServerType|load_balance_hosts|loadBalanceHosts|gssencmode|require_auth|service|passfile)$/;
const ABOUT_LOGIN = ['user', 'password'];

/** Tells whether a value of `sslmode` or `ssl` refuses a server without TLS. */
export function demandsTls(mode: string | undefined): boolean {
  return mode !== undefined && /^(require|verify-?ca|verify-?full|no-verify|true|1|on|yes)$/i.test(mode);
}

/** Rewrites the string for another address and database, and keeps each parameter that is still valid. */
export function rewriteText(
  text: ConnectionText,
  settings: ConnectionSettings,
  entry: ConnectionSettings,
  mayAddPassword: boolean,
): string {
  const values = new Map(text.values);
  const wanted = connectionValues(entry);
  if (!isSameServer(settings, entry)) {
    const { sslmode = '' } = Object.fromEntries(values);
    for (const key of [...values.keys()]) if (ABOUT_SERVER.test(key)) values.delete(key);
    // Some drivers know no sslmode, and scripts add one: it is written only where one stood, or where the entry needs it.
    if (demandsTls(sslmode) || demandsTls(entry.sslmode)) values.set('sslmode', entry.sslmode);
    else if (sslmode !== '') values.set('sslmode', sslmode);
    if (demandsTls(values.get('ssl'))) values.delete('ssl');
    for (const [key, value] of Object.entries(entry.parameters))
      if (ABOUT_SERVER.test(key)) values.set(key, value);
    for (const key of ['host', 'port']) values.set(key, wanted.get(key) ?? '');
  } else if (settings.hosts.length !== entry.hosts.length) {
    for (const key of ['host', 'port', 'hostaddr']) {
      const value = wanted.get(key);
      if (value === undefined) values.delete(key);
      else values.set(key, value);
    }
  }
  values.delete('service');
  values.set('dbname', entry.database);
  for (const key of ABOUT_LOGIN) {
    const value = wanted.get(key);
    const add = text.form !== 'jdbc' && (key === 'user' || mayAddPassword);
    if (value !== undefined && (values.has(key) || add)) values.set(key, value);
  }
  return writeConnectionText({ ...text, values });
}

/** The entry is one of the hosts of the connection, so its TLS settings are valid. */
export function isSameServer(settings: ConnectionSettings, entry: ConnectionSettings): boolean {
  return entry.hosts.every(({ host, port }) =>
    settings.hosts.some((other) => other.host === host && other.port === port),
  );
}
