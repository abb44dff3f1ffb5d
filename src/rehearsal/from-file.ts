import { tmpdir } from 'node:os';
import path from 'node:path';
import { readDotenv } from '../database/locate.ts';
import { SafemigrateError } from '../errors.ts';
import { type Emit, inPhase } from '../events.ts';
import { embeddedBinaries, missingPrograms, type ServerVersion } from '../local-server/binaries.ts';
import { newestClientPrograms } from '../local-server/client-programs.ts';
import { type Server, startServer } from '../local-server/embedded.ts';
import { makeWorkFolder } from '../local-server/folder-cleaner.ts';
import type { Caveat } from '../model/report.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { formatUrl, parseSettings, VARIABLES } from '../postgres/connection/connection-url.ts';
import { type Environment, readEnvironment } from '../postgres/connection/environment.ts';
import { NEWEST_MAJOR, OLDEST_MAJOR } from '../postgres/connection/supported-versions.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { identifier } from '../postgres/sql/quote.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import { type DumpFile, openDump } from './from-file/dump-file.ts';
import { runDump } from './from-file/restore.ts';
import type { RehearsalPlan } from './plan.ts';

/**
 * Restores the dump of `--dump` on a server of its own, which ends with the run.
 * @returns an environment in which the URL variable and the PG* variables lead to it, whatever they held.
 * @throws SafemigrateError `USAGE` beside --url, `CONFIGURATION` for the file, `SERVER`, `CLONE` where it cannot be restored.
 */
export async function restoreFile(
  scope: Scope,
  { signal }: Stop,
  { target, emit }: Pick<RehearsalPlan, 'target' | 'emit'>,
  outside: Environment,
) {
  const { url, urlEnv } = target;
  const from = target.from ?? '';
  if (url !== null) {
    throw new SafemigrateError('USAGE', '--dump and --url cannot be given together.', {
      hint: '--dump rehearses on a dump, without any target. Nothing was touched.',
    });
  }
  const dump = await openDump(path.resolve(outside.folder, from), signal);
  if (dump.text.wholeCluster) {
    throw new SafemigrateError('CONFIGURATION', `--dump: ${from} holds a whole cluster (pg_dumpall).`, {
      hint: 'Make a dump of the one database with pg_dump.',
    });
  }
  if (!dump.text.complete) {
    throw new SafemigrateError('CONFIGURATION', `--dump: ${from} is cut off: it ends before the dump does.`, {
      hint: 'What follows is missing in it. Dump the database again, or copy the file once more.',
    });
  }
  const { version, others } = await fittingVersion(dump);
  return inPhase(emit, 'connect', async () => {
    const server = await scope.own(
      `server of ${from}`,
      async () => startServer({ version, place: await makeWorkFolder(tmpdir(), 'restored dump', from) }),
      async (started) => started?.stop(),
    );
    const name = databaseName(dump, from);
    const settings = await makeDatabase(server, name, dump.text.roles, signal);
    const psql = await newestClientPrograms(['psql']);
    await runDump(dump, settings, { name: from, major: version, signal, psql });
    await execute(settings, 'ANALYZE', signal);
    const environment = leadingTo(settings, urlEnv, outside);
    warnOfOthers(environment, urlEnv, emit);
    return {
      located: { settings, source: `--dump ${from}` },
      environment,
      caveats: caveatsOf(from, version, dump.text.version, others),
    };
  });
}

/** The major version that was dumped, else the next newer one that is here; of an unknown one the newest. */
async function fittingVersion(dump: DumpFile): Promise<{ version: ServerVersion; others: boolean }> {
  const dumped = dump.text.version === null ? null : Number.parseInt(dump.text.version, 10);
  const all = Array.from({ length: NEWEST_MAJOR - OLDEST_MAJOR + 1 }, (_, index) => OLDEST_MAJOR + index);
  const wanted =
    dumped === null ? all.toReversed() : all.filter((major) => major >= Math.min(dumped, NEWEST_MAJOR));
  for (const major of wanted) {
    const version = major as ServerVersion;
    try {
      await embeddedBinaries(version);
      return { version, others: dumped !== null && version !== dumped };
    } catch {
      // Another one may be here.
    }
  }
  throw missingPrograms(wanted);
}

/** Takes the name that the dump gives the database, else that of the file. */
function databaseName({ text }: DumpFile, from: string): string {
  const name =
    text.database ?? path.basename(from).replace(/\.(sql|dump|pgdump|backup|tar|dir|custom)$/i, '');
  const cut = Buffer.from(name)
    .subarray(0, 63)
    .toString()
    .replace(/\uFFFD$/, '');
  return ['postgres', 'template0', 'template1', ''].includes(cut) ? 'restored' : cut;
}

async function makeDatabase(
  server: Server,
  name: string,
  roles: readonly string[],
  signal: AbortSignal,
): Promise<ConnectionSettings> {
  const settings = parseSettings(server.url, readEnvironment({}, '/'));
  for (const role of roles.filter((each) => each !== server.user))
    await execute(settings, `CREATE ROLE ${identifier(role)}`, signal);
  await execute(settings, `CREATE DATABASE ${identifier(name)}`, signal);
  return { ...settings, database: name };
}

async function execute(settings: ConnectionSettings, sql: string, signal: AbortSignal): Promise<void> {
  const session = openSession(settings, { purpose: 'restore', statementTimeoutMs: 0, signal });
  await withSession(session, (opened) => opened.query(sql));
}

/** All connection variables point to the restored database. */
function leadingTo(settings: ConnectionSettings, urlEnv: string, outside: Environment): Environment {
  const [place] = settings.hosts;
  const named = new Set(Object.values(VARIABLES));
  const kept = Object.entries(outside.env).filter(([name]) => !named.has(name));
  const env = {
    ...Object.fromEntries(kept),
    [urlEnv]: formatUrl(settings),
    PGHOST: place?.host,
    PGPORT: String(place?.port),
    PGUSER: settings.user,
    PGPASSWORD: settings.password,
    PGDATABASE: settings.database,
  };
  return readEnvironment(env, outside.folder);
}

const DATABASE_URL = /^(?:jdbc:)?postgres(?:ql)?(?:\+\w+)?:\/\//i;

/** Warns of database URLs in other variables. They are not compared with a target, since there is none: the command would reach what they name. */
function warnOfOthers(environment: Environment, ours: string, emit: Emit): void {
  const variables = new Map([...readDotenv(environment), ...Object.entries(environment.env)]);
  const names = [...variables].filter(([name, value]) => name !== ours && DATABASE_URL.test(value ?? ''));
  if (names.length === 0) return;
  emit({
    type: 'notice',
    message:
      `the command can reach the databases that ${names.map(([name]) => name).join(', ')} name: --dump replaces ${ours} ` +
      'and the PG* variables only',
  });
}

function caveatsOf(from: string, version: number, dumped: string | null, others: boolean): Caveat[] {
  const reasons = [
    `the target is ${from}, restored on a PostgreSQL ${version} of its own: data as old as the dump, no other session at work, ` +
      "this machine's speed without fsync, and a superuser's rights",
    'a dump hides row security, which a superuser bypasses, settings of roles, and damaged unique indexes, which are rebuilt: a command that these stop in production may pass here',
  ];
  if (others) reasons.push(`the dump is of PostgreSQL ${dumped}, whose programs are not on this machine`);
  return reasons.map((reason) => ({ path: 'target.source', kind: 'estimate', reason }));
}
