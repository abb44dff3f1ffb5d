import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import path from 'node:path';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { newestClientPrograms } from '../../local-server/client-programs.ts';

/** A dump, as lines of SQL: an archive is made into these by pg_restore. */
export interface DumpFile {
  readonly text: DumpText;
  /** Each byte as a character: what encoding it is in, it says itself, and only the server needs to know. */
  lines(signal: AbortSignal): AsyncGenerator<string>;
}

const ARCHIVE = 'PGDMP';
const GZIP = '\u001f\u008b';
/** Where a tar archive has its name. */
const TAR = { from: 257, name: 'ustar' };

/** @throws SafemigrateError `CONFIGURATION` if the file is not a dump or cannot be read. */
export async function openDump(file: string, signal: AbortSignal): Promise<DumpFile> {
  const kind = await kindOf(file);
  if (kind === 'text') {
    const lines = (until: AbortSignal) => splitLines(createReadStream(file, { signal: until }));
    return { text: await readDumpText(lines(signal)), lines };
  }
  const programs = await newestClientPrograms(['pg_restore']);
  if (!programs) {
    throw new SafemigrateError(
      'CONFIGURATION',
      `--dump: ${file} is an archive, and pg_restore is not installed here.`,
      {
        hint:
          'Install the client programs of PostgreSQL (package postgresql-client), name their folder in PGBIN, or make a dump ' +
          'as plain SQL (pg_dump --format=plain).',
      },
    );
  }
  const program = path.join(programs.folder, 'pg_restore');
  const text = await readDumpText(restoredText(program, ['--schema-only', '--create'], file, signal));
  return { text, lines: (until) => restoredText(program, [], file, until) };
}

async function kindOf(file: string): Promise<'text' | 'archive'> {
  try {
    const isFolder = (await stat(file)).isDirectory();
    const handle = await open(isFolder ? path.join(file, 'toc.dat') : file);
    try {
      const { buffer, bytesRead } = await handle.read({
        buffer: Buffer.alloc(512),
        length: 512,
        position: 0,
      });
      const start = buffer.subarray(0, bytesRead).toString('latin1');
      if (start.startsWith(ARCHIVE) || start.slice(TAR.from).startsWith(TAR.name)) return 'archive';
      if (!isFolder && !start.startsWith(GZIP)) return 'text';
    } finally {
      await handle.close();
    }
  } catch (cause) {
    throw new SafemigrateError('CONFIGURATION', `--dump: ${file} cannot be read: ${messageOf(cause)}.`, {
      cause,
    });
  }
  throw new SafemigrateError('CONFIGURATION', `--dump: ${file} is no dump, or compressed as a whole.`, {
    hint: 'Give SQL, or what pg_dump writes with --format=custom, directory or tar; decompress .gz files first.',
  });
}

/** A line ends with a line feed, and with nothing else: a carriage return may be part of a function. */
async function* splitLines(chunks: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest = '';
  for await (const chunk of chunks) {
    const lines = (rest + chunk.toString('latin1')).split('\n');
    rest = lines.pop() ?? '';
    yield* lines;
  }
  if (rest !== '') yield rest;
}

async function* restoredText(
  program: string,
  options: readonly string[],
  file: string,
  signal: AbortSignal,
): AsyncGenerator<string> {
  const child = spawn(program, [...options, '--file=-', file], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' },
    signal,
  });
  // An abort shows as the failure of the stream's reader.
  child.on('error', () => {});
  let complaint = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-2_000);
  });
  const ended = once(child, 'close');
  ended.catch(() => {});
  try {
    yield* splitLines(child.stdout);
    const [code] = (await ended) as [number | null];
    signal.throwIfAborted();
    if (code !== 0)
      throw new SafemigrateError('CONFIGURATION', `--dump: ${file} cannot be read:\n  ${complaint.trim()}`);
  } finally {
    child.kill('SIGKILL');
  }
}

/** Facts in the text of a dump, as pg_dump writes it; of other SQL it tells little, and nothing wrong. */
export interface DumpText {
  /** Version of the server that was dumped, `15.4`; null where the text does not say. */
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
/** Lines of a dump that would make its own database: it goes into one that is there already. */
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

/** Marks lines that are data: rows for COPY, and the end of these. */
async function* markRows(lines: AsyncIterable<string>): AsyncGenerator<{ text: string; data: boolean }> {
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
  for await (const { text, data } of markRows(lines)) {
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
  for await (const { text, data } of markRows(lines)) {
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
