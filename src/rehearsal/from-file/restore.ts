import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { messageOf, SafemigrateError } from '../../errors.ts';
import type { ClientPrograms } from '../../local-server/client-programs.ts';
import { clientEnvironment, databaseArgument } from '../../postgres/connection/client-environment.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import { type DumpFile, linesToRun } from './dump-file.ts';

/** @throws SafemigrateError `CONFIGURATION` where psql is needed and missing, `CLONE` with the first error. */
export async function runDump(
  dump: DumpFile,
  settings: ConnectionSettings,
  options: {
    readonly name: string;
    readonly major: number;
    readonly signal: AbortSignal;
    readonly psql: ClientPrograms | undefined;
  },
): Promise<void> {
  const { name, major, signal, psql } = options;
  if (psql) {
    const lines = linesToRun(dump.lines(signal), { major, byPsql: true });
    return await feed(path.join(psql.folder, 'psql'), lines, settings, name);
  }
  if (dump.text.needsPsql) {
    throw new SafemigrateError(
      'CONFIGURATION',
      `--dump: ${name} has rows for COPY or commands of psql's in it, and psql is not installed here.`,
      {
        hint:
          'Install the client programs of PostgreSQL (package postgresql-client), name their folder in PGBIN, or make a dump ' +
          'that needs none (pg_dump --inserts).',
      },
    );
  }
  await send(linesToRun(dump.lines(signal), { major, byPsql: false }), settings, name, signal);
}

/** psql reads it from standard input; nothing that it prints is shown but the first error. */
async function feed(
  program: string,
  lines: AsyncIterable<string>,
  settings: ConnectionSettings,
  name: string,
): Promise<void> {
  const words = ['--no-psqlrc', '--quiet', '--no-password', '--set=ON_ERROR_STOP=1', '--file=-'];
  const psql = spawn(program, [...words, `--dbname=${databaseArgument(settings.database)}`], {
    stdio: ['pipe', 'ignore', 'pipe'],
    env: clientEnvironment(settings, { applicationName: 'safemigrate restore' }),
  });
  let complaint = '';
  psql.stderr.setEncoding('utf8').on('data', (text: string) => {
    complaint = (complaint + text).slice(-4_000);
  });
  const closed = once(psql, 'close');
  try {
    const [fed] = await Promise.allSettled([pipeline(Readable.from(encoded(lines)), psql.stdin)]);
    const [code] = (await closed) as [number | null];
    if (code !== 0) throw failure(name, complaint.trim().replaceAll('\n', '\n  '));
    if (fed.status === 'rejected') throw fed.reason;
  } finally {
    psql.kill('SIGKILL');
  }
}

/** Larger pieces than lines: a dump has millions of them. */
async function* encoded(lines: AsyncIterable<string>): AsyncGenerator<Buffer> {
  let piece = '';
  for await (const line of lines) {
    piece += line;
    if (piece.length < PIECE) continue;
    yield Buffer.from(piece, 'latin1');
    piece = '';
  }
  yield Buffer.from(piece, 'latin1');
}

const PIECE = 65_536;

/** Without psql: all of it in one message, in the encoding that our own sessions have. */
async function send(
  lines: AsyncIterable<string>,
  settings: ConnectionSettings,
  name: string,
  signal: AbortSignal,
): Promise<void> {
  let text = '';
  for await (const line of lines) text += line;
  const session = await openSession(settings, { purpose: 'restore', statementTimeoutMs: 0, signal });
  try {
    await session.query('RESET ALL');
    await session.query(Buffer.from(text, 'latin1').toString());
  } catch (error) {
    signal.throwIfAborted();
    throw failure(name, messageOf(error), error);
  } finally {
    await session.close();
  }
}

function failure(name: string, said: string, cause?: unknown): SafemigrateError {
  return new SafemigrateError('CLONE', `--dump: ${name} could not be restored:\n  ${said}`, {
    ...(cause === undefined ? {} : { cause }),
    hint: 'It was restored on a server of its own, which is gone again.',
  });
}
