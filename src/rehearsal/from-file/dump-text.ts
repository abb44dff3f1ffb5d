/** What the text of a dump tells, as pg_dump writes it; of other SQL it tells little, and nothing wrong. */
export interface DumpText {
  /** Of the server that was dumped, `15.4`; null where the text does not say. */
  readonly version: string | null;
  /** Where it connects to by itself (pg_dump --create). */
  readonly database: string | null;
  /** Roles that own something, or that something is granted to. */
  readonly roles: readonly string[];
  /** Made by pg_dumpall. */
  readonly wholeCluster: boolean;
  /** It has rows for COPY, or commands of psql's, so that the server alone cannot read it. */
  readonly needsPsql: boolean;
  /** It does not end among rows, nor without the line that pg_dump ends with. */
  readonly complete: boolean;
}

const VERSION = /^-- Dumped from database version (\d+(?:\.\d+)*)/;
const CLUSTER = '-- PostgreSQL database cluster dump';
const BEGINNING = '-- PostgreSQL database dump';
const END = '-- PostgreSQL database dump complete';
const COPY = /^COPY .* FROM stdin;$/;
const COPY_END = '\\.';
const CONNECT = /^\\connect\s+(?:-\S+\s+)*(.+?)\s*$/;
/** Of a dump that would make its own database: it goes into one that is there already. */
const ABOUT_DATABASES = /^(?:CREATE|DROP) DATABASE |^\\connect\s/;
/** psql's guard against text that was smuggled into a dump; it means nothing to the server. */
const GUARDS = /^\\(?:un)?restrict\s/;
const TRANSACTION_TIMEOUT = 'SET transaction_timeout = 0;';
const TRANSACTION_TIMEOUT_SINCE = 17;

const NAME = '("(?:[^"]|"")+"|[\\w$\\u0080-\\uffff]+)';
const LIST = `(${NAME}(?:, *${NAME})*)`;
const ROLES: readonly RegExp[] = [
  new RegExp(` OWNER TO ${LIST};`),
  new RegExp(`^GRANT .* TO ${LIST}(?: WITH GRANT OPTION)?(?: GRANTED BY .*)?;`),
  new RegExp(`^REVOKE .* FROM ${LIST}(?: CASCADE)?;`),
  new RegExp(`^ALTER DEFAULT PRIVILEGES FOR (?:ROLE|USER) ${LIST}`),
  new RegExp(`^ALTER DEFAULT PRIVILEGES .* (?:TO|FROM) ${LIST}(?: WITH GRANT OPTION)?;`),
  new RegExp(`^CREATE SCHEMA .* AUTHORIZATION ${LIST}`),
  new RegExp(`^CREATE POLICY .* TO ${LIST}(?: USING| WITH CHECK|;)`),
  new RegExp(`^SET SESSION AUTHORIZATION '${NAME}'`),
];
const NOT_ROLES = /^(public|current_user|current_role|session_user|default|none|pg_.*)$/;

export interface DumpLine {
  readonly text: string;
  /** A row for COPY, or the end of these. */
  readonly data: boolean;
}

/** Lines of text, with those marked that are rows. */
export async function* withoutRows(lines: AsyncIterable<string>): AsyncGenerator<DumpLine> {
  let copying = false;
  for await (const text of lines) {
    yield { text, data: copying };
    if (copying) copying = text !== COPY_END;
    else copying = COPY.test(text);
  }
}

/** @param lines with each byte as a character, as it stands in the file. */
export async function readDumpText(lines: AsyncIterable<string>): Promise<DumpText> {
  const found = { version: null, database: null, wholeCluster: false, needsPsql: false, complete: true } as {
    -readonly [K in keyof Omit<DumpText, 'roles'>]: DumpText[K];
  };
  let [dump, amongRows] = [false, false];
  const roles = new Set<string>();
  for await (const { text, data } of withoutRows(lines)) {
    amongRows = data ? text !== COPY_END : COPY.test(text);
    if (data) continue;
    if (text === BEGINNING) dump = true;
    if (text === END) dump = false;
    found.version ??= VERSION.exec(text)?.[1] ?? null;
    if (text === CLUSTER) found.wholeCluster = true;
    const connect = CONNECT.exec(text)?.[1];
    if (connect !== undefined) found.database = connectedName(connect);
    if (COPY.test(text) || (text.startsWith('\\') && !ABOUT_DATABASES.test(text) && !GUARDS.test(text)))
      found.needsPsql = true;
    for (const pattern of ROLES) {
      const list = pattern.exec(text)?.[1];
      if (list !== undefined) for (const role of namesIn(list)) roles.add(role);
    }
  }
  found.complete = !dump && !amongRows;
  return { ...found, roles: [...roles].filter((role) => !NOT_ROLES.test(role)) };
}

/** Statements to run, without database-level commands and settings unknown to the server. */
export async function* linesToRun(
  lines: AsyncIterable<string>,
  options: { readonly major: number; readonly byPsql: boolean },
): AsyncGenerator<string> {
  for await (const { text, data } of withoutRows(lines)) {
    const dropped =
      !data &&
      (ABOUT_DATABASES.test(text) ||
        (!options.byPsql && GUARDS.test(text)) ||
        (text === TRANSACTION_TIMEOUT && options.major < TRANSACTION_TIMEOUT_SINCE));
    if (!dropped) yield `${text}\n`;
  }
}

function connectedName(word: string): string {
  const settings = /dbname='((?:[^'\\]|\\.)*)'/.exec(word)?.[1];
  if (settings !== undefined) return utf8(settings.replace(/\\(.)/g, '$1'));
  return namesIn(word)[0] ?? utf8(word);
}

function namesIn(list: string): string[] {
  return [...list.matchAll(new RegExp(NAME, 'g'))].map(([name]) =>
    utf8(
      name.startsWith('"')
        ? name.slice(1, -1).replaceAll('""', '"')
        : // As the server does where letters have several bytes.
          name.replace(/[A-Z]/g, (letter) => letter.toLowerCase()),
    ),
  );
}

function utf8(bytes: string): string {
  return Buffer.from(bytes, 'latin1').toString();
}
