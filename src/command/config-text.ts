import { compareByText } from '../database/same-target.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import {
  type ConnectionText,
  looksLikeConnection,
  readConnectionText,
} from '../postgres/connection/connection-text.ts';
import { parseSettings } from '../postgres/connection/connection-url.ts';
import type { Environment } from '../postgres/connection/environment.ts';
import type { ConnectionPart } from '../postgres/connection/split-names.ts';
import { addressEdits, type Pair, type ReadFile, readPairs, replaced, tlsEdits } from './config-pairs.ts';
import type { Edit } from './mention.ts';
import { DEFAULT_PORT } from './split-variables.ts';
import { INSIDE, rewriteText } from './url-mentions.ts';

/** A connection that a configuration file contains. */
export interface FileConnection {
  readonly line: number;
  /** Position of a connection that is written as one string. */
  readonly span?: readonly [start: number, end: number];
  readonly settings: ConnectionSettings;
  /** It is worth a connection to see what it names; else it names the target only if its words do. */
  readonly isDatabase: boolean;
  readonly namesServer: boolean;
  readonly lacksPassword: boolean;
  edits(entry: ConnectionSettings): Edit[];
}

/** Finds the connections in the text of a file: URLs, keyword strings, and values whose keys stand next to each other. */
export function findInFile(
  text: string,
  file: string,
  environment: Environment,
  target: ConnectionSettings,
): FileConnection[] {
  const read = readPairs(text, file);
  // In these, %( … ) stands for other values, and a plain percent sign is written twice.
  const doubled = /\.(?:ini|cfg)$/i.test(file) && !/[^%]%(?![%(])/.test(text);
  const place = { text, environment, target, doubled, read };
  const texts = findTexts(place);
  return [...texts, ...findGroups(place, texts)];
}

/** Applies edits that do not overlap; two connections may share a password, whose edits are equal. */
export function edited(text: string, edits: readonly Edit[]): string {
  return [...new Map(edits.map((edit) => [`${edit.start}-${edit.end}`, edit])).values()]
    .sort((one, other) => other.start - one.start)
    .reduce((rest, { start, end, text: written }) => rest.slice(0, start) + written + rest.slice(end), text);
}

/** Finds a line, outside of comments, that still names the target by host and port; undefined if there is none. */
export function findLeft(
  text: string,
  file: string,
  environment: Environment,
  target: ConnectionSettings,
): number | undefined {
  const isLeft = ({ settings, namesServer }: FileConnection) =>
    namesServer && compareByText(settings, target) !== undefined;
  const found = findInFile(text, file, environment, target).find(isLeft);
  if (found) return found.line;
  const addresses = target.hosts.map(({ host, port }) => `${host}:${port}`);
  const lines = text.split('\n');
  const index = lines.findIndex(
    (line) =>
      !/^\s*(?:#|;|\/\/)/.test(line) &&
      addresses.some((address) => has(line.toLowerCase(), address.toLowerCase())),
  );
  return index < 0 ? undefined : index + 1;
}

function has(line: string, address: string): boolean {
  const at = line.indexOf(address);
  return at >= 0 && !/[\w.-]/.test(line[at - 1] ?? '') && !/\d/.test(line[at + address.length] ?? '');
}

interface Place {
  readonly text: string;
  readonly environment: Environment;
  readonly target: ConnectionSettings;
  readonly doubled: boolean;
  readonly read: ReadFile;
}

function findTexts({ text, environment, target, doubled, read }: Place): FileConnection[] {
  const urls = [...text.matchAll(INSIDE)].map(({ 0: url, index }): [number, number] => [
    index,
    index + url.replace(/[),.\]}]+$/, '').length,
  ]);
  const words = [...literals(text), ...read.pairs.map(({ start, end }): [number, number] => [start, end])];
  const keywords = unique(words.filter(([start, end]) => isKeywords(text.slice(start, end))));
  return [...urls, ...keywords].flatMap(([start, end]) => {
    const written = text.slice(start, end);
    const connection = tryRead(doubled ? written.replaceAll('%%', '%') : written);
    if (!connection) return [];
    const login = loginBeside(read, start);
    const completed = withLogin(connection, login, target.user);
    let settings: ConnectionSettings;
    try {
      settings = parseSettings(completed, environment);
    } catch {
      return [];
    }
    return [
      {
        line: lineOf(text, start),
        span: [start, end] as const,
        settings,
        isDatabase: true,
        namesServer: true,
        lacksPassword: false,
        edits: (entry) => {
          const apart = login.get('password') ?? [];
          const renewed = rewriteText(connection, settings, entry, apart.length === 0);
          const url = { start, end, text: doubled ? renewed.replaceAll('%', '%%') : renewed };
          const password = apart.map((pair) => replaced(pair, entry.password ?? ''));
          return [url, ...(connection.values.has('password') ? [] : password)];
        },
      },
    ];
  });
}

const isKeywords = (value: string) => !value.includes('://') && looksLikeConnection(value);

/** String literals of any language, without their quotes: those that are no value of a key as well. */
function literals(text: string): [number, number][] {
  return [...text.matchAll(/(["'`])((?:\\.|(?!\1)[^\\\n])*)\1/g)].map(
    ({ 1: quote = '', 2: inner = '', index }) => [index + quote.length, index + quote.length + inner.length],
  );
}

function unique(spans: readonly [number, number][]): [number, number][] {
  return [...new Map(spans.map((span) => [span[0], span])).values()];
}

function tryRead(text: string): ConnectionText | undefined {
  try {
    // What a template fills in later names nothing yet.
    return /\$\{|\{\{|%\(|\$\(/.test(text) ? undefined : readConnectionText(text);
  } catch {
    return undefined;
  }
}

/** User and password in keys beside that of the URL: `url`, `username` and `password` of one block. */
function loginBeside({ pairs }: ReadFile, position: number): Map<ConnectionPart, Pair[]> {
  const own = pairs.find(({ start, end }) => start <= position && position < end);
  const login = new Map<ConnectionPart, Pair[]>();
  if (!own) return login;
  const [first = ''] = own.prefixes;
  const prefix = own.part ? first : first.replace(/(?:JDBC_?)?(?:URL|URI|DSN)$/, '');
  for (const pair of pairs) {
    const { scope, part } = pair;
    if (scope !== own.scope || !pair.prefixes.includes(prefix) || (part !== 'user' && part !== 'password'))
      continue;
    login.set(part, [...(login.get(part) ?? []), pair]);
  }
  return login;
}

function withLogin(
  text: ConnectionText,
  login: Map<ConnectionPart, Pair[]>,
  defaultUser: string,
): ConnectionText {
  const values = new Map(text.values);
  for (const key of ['user', 'password'] as const) {
    const value = login.get(key)?.[0]?.value;
    if (value && !values.has(key)) values.set(key, value);
  }
  if (text.form === 'jdbc' && !values.has('user')) values.set('user', defaultUser);
  return { ...text, values };
}

function findGroups(place: Place, texts: readonly FileConnection[]): FileConnection[] {
  const isInText = ({ start }: Pair) =>
    texts.some(({ span: [from, to] = [0, 0] }) => from <= start && start < to);
  const groups = new Map<string, Pair[]>();
  for (const pair of place.read.pairs) {
    if (pair.part === undefined || isInText(pair)) continue;
    for (const prefix of pair.prefixes) {
      const key = `${pair.scope} ${prefix}`;
      groups.set(key, [...(groups.get(key) ?? []), pair]);
    }
  }
  return [...groups.values()].flatMap((group) => connectionOf(group, place));
}

function connectionOf(group: readonly Pair[], { text, target, read }: Place): FileConnection[] {
  const of = (part: ConnectionPart) => group.filter((pair) => pair.part === part && pair.value !== '');
  const [host] = of('host');
  const [, name = host?.value, ownPort] = /^([^:/]+):(\d+)$/.exec(host?.value ?? '') ?? [];
  const given = ownPort ?? of('port')[0]?.value;
  const port = Number(given ?? DEFAULT_PORT);
  // `name` may be anything's.
  const named = of('database').sort((one, other) => weightOf(one) - weightOf(other));
  const [user] = of('user');
  const [password] = of('password');
  const database = (named.find(({ value }) => value === target.database) ?? named[0])?.value;
  const isOurs = database === target.database || user?.value === target.user;
  // Without a database it may be any service; without a host, any login.
  const isComplete = host
    ? isOurs || given !== undefined
    : database === target.database && user !== undefined;
  if (!isComplete || !Number.isInteger(port)) return [];
  const settings: ConnectionSettings = {
    hosts: host && name ? [{ host: name, port }] : target.hosts,
    user: user?.value ?? target.user,
    ...(password
      ? { password: password.value }
      : target.password === undefined
        ? {}
        : { password: target.password }),
    database: database ?? target.database,
    sslmode: target.sslmode,
    parameters: target.parameters,
  };
  const [first] = group;
  return [
    {
      line: lineOf(text, (host ?? first)?.from ?? 0),
      settings,
      isDatabase: isOurs && host !== undefined,
      namesServer: host !== undefined,
      lacksPassword: password === undefined,
      edits: (entry) => [
        ...of('host').flatMap((pair) => addressEdits(pair, of('port').length === 0, entry, text, read)),
        ...of('port').map((pair) => replaced(pair, String(entry.hosts[0]?.port))),
        ...of('password').map((pair) => replaced(pair, entry.password ?? '')),
        ...(settings.database === target.database
          ? named
              .filter(({ value }) => value === target.database)
              .map((pair) => replaced(pair, entry.database))
          : []),
        ...tlsEdits(group, text, read),
      ],
    },
  ];
}

function weightOf({ key }: Pair): number {
  return /^name$/i.test(key) ? 1 : 0;
}

function lineOf(text: string, position: number): number {
  return text.slice(0, position).split('\n').length;
}
