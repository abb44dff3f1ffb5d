import { once } from 'node:events';
import { open, readdir, readFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { SafemigrateError } from '../errors.ts';
import { newestClientPrograms } from '../local-server/client-programs.ts';
import { makeWorkFolder } from '../local-server/folder-cleaner.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { connectionValues, VARIABLES } from '../postgres/connection/connection-url.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Scope } from '../scope.ts';
import type { Traffic } from './play-shapes.ts';
import type { TrafficLog } from './traffic-log.ts';

/** --failures-detailed and --verbose-errors came with 15. */
const SINCE = 15;
const NAME = 'safemigrate load';
const TERMINATE = `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '${NAME}'`;
/** pgbench gives no SQLSTATE but tells these kinds of failures apart. */
const SQLSTATES: Readonly<Record<string, string>> = { deadlock: '40P01', serialization: '40001' };

/** Finds pgbench. @throws SafemigrateError `CONFIGURATION` */
export async function findPgbench(): Promise<string> {
  const found = await newestClientPrograms(['pgbench']);
  if (found && found.major >= SINCE) return path.join(found.folder, 'pgbench');
  throw new SafemigrateError(
    'CONFIGURATION',
    '--load with a script needs pgbench of PostgreSQL 15 or newer.',
    {
      hint: 'Install it (package postgresql-15 or newer on Debian, postgresql-contrib elsewhere), or name its folder in PGBIN. Nothing was touched.',
    },
  );
}

/**
 * Runs pgbench on the clone until it is stopped; what became of its transactions is known then.
 * @param scripts `FILE`, or `FILE@weight`, in pgbench's own language. @param perSecond transactions; null: as many as there can be.
 * @param folder where relative paths of the scripts begin. @param clone connects to it. @param control a session on its server, to end pgbench's sessions by.
 */
export async function runPgbench(
  scope: Scope,
  program: string,
  {
    scripts,
    clients,
    perSecond,
    folder,
  }: { scripts: readonly string[]; clients: number; perSecond: number | null; folder: string },
  clone: ConnectionSettings,
  control: Session,
  log: TrafficLog,
): Promise<Traffic> {
  const work = await scope.own(
    'log of pgbench',
    () => makeWorkFolder(tmpdir(), 'log', clone.database),
    async (made) => made?.guard.dismiss(),
  );
  const messages = path.join(work.folder, 'messages');
  const output = await open(messages, 'w');
  const words = [
    ...['-n', '-c', String(clients), '-j', '1', '-T', '86400', '--max-tries=1'],
    ...['--failures-detailed', '--verbose-errors', '-l', '--log-prefix', path.join(work.folder, 'log')],
    ...(perSecond === null ? [] : ['-R', String(perSecond)]),
    ...scripts.flatMap((script) => ['-f', path.resolve(folder, script)]),
  ];
  const environment = { ...process.env, ...variablesOf(clone), PGAPPNAME: NAME, LC_ALL: 'C' };
  const child = await work.guard.launch(program, words, {
    environment,
    uid: undefined,
    output: output.fd,
    folder: work.folder,
  });
  let running = true;
  const ended = once(child, 'exit').then(() => {
    running = false;
  });
  const read = async () => {
    const texts = await readdir(work.folder);
    for (const name of texts.filter((each) => /^log\.\d+/.test(each)))
      readLog(await readFile(path.join(work.folder, name), 'utf8'), log);
    const told = await readFile(messages, 'utf8');
    addDetails(told, log);
    for (const [, message = ''] of told.matchAll(ABORTED)) log.addAborted(message.trim());
  };
  let stopped: Promise<void> | undefined;
  const stop = async () => {
    // Without its sessions it writes what it has, and ends; killed it would lose it.
    while (running) {
      await control.query(TERMINATE);
      await Promise.race([ended, new Promise((resolve) => setTimeout(resolve, 200))]);
    }
    await output.close();
    await read();
  };
  return {
    clients,
    failure: async () => (running ? null : (await readFile(messages, 'utf8')).trim()),
    stop: () => {
      stopped ??= stop();
      return stopped;
    },
  };
}

/** `client transaction time script epoch_s epoch_us [lag]`; time is microseconds, or the kind of failure. */
export function readLog(text: string, log: Pick<TrafficLog, 'add'>): void {
  for (const line of text.split('\n')) {
    const [, , time = '', , seconds, micros] = line.split(' ');
    if (time === '' || time === 'skipped' || seconds === undefined) continue;
    const endedMs = Number(seconds) * 1000 + Number(micros) / 1000 - performance.timeOrigin;
    const failed = /^\d/.test(time) ? null : time;
    const error = failed === null ? null : { sqlstate: SQLSTATES[failed] ?? '', message: failed, detail: '' };
    log.add({ startedMs: endedMs - (failed === null ? Number(time) / 1000 : 0), endedMs, error });
  }
}

/** An error other than a deadlock ends the session of pgbench for good. */
const ABORTED = /aborted in command[^\n]*?: ERROR:\s+([^\n]*)/g;
const DEADLOCK = /deadlock detected\s+DETAIL:\s+([\s\S]*?)(?=\n(?:HINT|CONTEXT|pgbench):|$)/g;

/** Adds the server's details of deadlocks from pgbench's messages, which are in the order of the log. */
function addDetails(messages: string, log: TrafficLog): void {
  const details = [...messages.matchAll(DEADLOCK)].map(([, detail = '']) =>
    detail.replace(/\s*\n\s*/g, '\n'),
  );
  log.deadlocks.sort((one, other) => one.endedMs - other.endedMs);
  for (const [index, deadlock] of log.deadlocks.entries()) deadlock.detail ||= details[index] ?? '';
}

function variablesOf(settings: ConnectionSettings): Record<string, string> {
  const named = Object.entries(VARIABLES) as [string, string][];
  const values = connectionValues(settings);
  return Object.fromEntries(
    named.flatMap(([key, variable]) => {
      const value = values.get(key);
      return value === undefined ? [] : [[variable, value]];
    }),
  );
}
