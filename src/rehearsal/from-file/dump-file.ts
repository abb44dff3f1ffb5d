import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { createReadStream } from 'node:fs';
import { open, stat } from 'node:fs/promises';
import path from 'node:path';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { newestClientPrograms } from '../../local-server/client-programs.ts';
import { type DumpText, readDumpText } from './dump-text.ts';

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
