import { cleanRecordedServices } from '../../clone/services/own-clones.ts';
import { removeEmptyCgroups } from '../../command/command-cgroup.ts';
import { onPrimary } from '../../database/server-identity.ts';
import { messageOf, SafemigrateError } from '../../errors.ts';
import { cleanFolders } from '../../local-server/recorded-folders.ts';
import { type Cleaning, type CleanOptions, clean } from '../../ownership/clean.ts';
import { openMaintenanceSession } from '../../ownership/control-session.ts';
import { cleanExternals } from '../../ownership/external-clones.ts';
import { whoMayWait } from '../../ownership/reopen.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import { parseSettings } from '../../postgres/connection/connection-url.ts';
import { readEnvironment } from '../../postgres/connection/environment.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { visible } from '../../report/visible.ts';
import type { OptionsOf } from '../../settings.ts';
import { nameConsole, type PooledTarget, resumePooler } from '../../swap/pgbouncer.ts';
import { EXIT } from '../exit-codes.ts';
import { CLEAN_SETTINGS } from '../options/subcommand-settings.ts';
import { findNamedPlace, gatherOptions, type NamedPlace, nameServer } from '../read-options.ts';
import { NOTHING_HERE } from './list-command.ts';
import { cleanedAtService } from './service-clones.ts';

/** The outcome for one database or folder. */
interface Outcome {
  readonly what: 'opened' | 'resumed' | 'dropped' | 'removed' | 'left' | 'failed';
  readonly words: string;
}

/**
 * Drops everything without a living owner, and reports what it dropped, what it left, and why: folders of this machine, and if
 * a target is named, databases of its server and clients that wait at its PgBouncers. It cleans the folders even if the server
 * does not answer.
 */
export async function cleanCommand(flags: Record<string, unknown>, signal: AbortSignal): Promise<number> {
  const options = await gatherOptions(CLEAN_SETTINGS, flags);
  const kept = options.kept ?? false;
  const cgroups = removeEmptyCgroups().map((words) => ({ what: 'removed' as const, words }));
  const outcomes: Outcome[] = [
    ...outcomesOf(await cleanFolders({ kept }), 'removed'),
    ...outcomesOf(await cleanExternals({ kept }), 'removed'),
    ...outcomesOf(await cleanRecordedServices({ kept }), 'removed'),
    ...outcomesOf(await cleanedAtService(options, signal), 'removed'),
    ...cgroups,
  ];
  outcomes.forEach(print);
  const target = findNamedPlace(options.target);
  if (target) {
    const more = await serverCleaned(target, options, signal);
    more.forEach(print);
    outcomes.push(...more);
  }
  if (outcomes.length === 0)
    process.stdout.write(target ? `Nothing to clean on ${nameServer(target)}.\n` : NOTHING_HERE);
  return outcomes.some(({ what }) => what === 'failed') ? EXIT.cannotRehearse : EXIT.passed;
}

function outcomesOf({ removed, left, failed }: Cleaning, word: 'removed' | 'dropped'): Outcome[] {
  return [
    ...removed.map((name) => ({ what: word, words: name })),
    ...left.map(({ name, reason }) => ({ what: 'left' as const, words: `${name}: ${reason}` })),
    ...failed.map(({ name, reason }) => ({ what: 'failed' as const, words: `${name}: ${reason}` })),
  ];
}

function putAsideToDrop({
  originals,
  rolledBack,
  olderThanMs,
}: Pick<OptionsOf<typeof CLEAN_SETTINGS>, 'originals' | 'rolledBack' | 'olderThanMs'>) {
  const disposal = olderThanMs === undefined ? {} : { olderThanMs };
  if (originals || rolledBack || olderThanMs === undefined)
    return { ...(originals && { originals: disposal }), ...(rolledBack && { rolledBack: disposal }) };
  throw new SafemigrateError('USAGE', '--older-than goes with --originals or --rolled-back.', {
    hint: 'Nothing was dropped. Kept clones go by --kept, whatever their age.',
  });
}

async function serverCleaned(
  target: NamedPlace,
  options: OptionsOf<typeof CLEAN_SETTINGS>,
  signal: AbortSignal,
): Promise<Outcome[]> {
  const { kept = false, pgbouncer = [] } = options;
  const wanted = { kept, ...putAsideToDrop(options) };
  const environment = readEnvironment(process.env, process.cwd());
  const poolers = pgbouncer.map((url) => parseSettings(url, environment));
  const place = { ...target, settings: onPrimary(target.settings) };
  const session = await openMaintenanceSession(place, { purpose: 'clean', signal });
  try {
    const enter = (database: string) => openSession(place.settings, { database, purpose: 'clean', signal });
    const databases = await databasesCleaned(
      session,
      { ...wanted, enter, signal, target: place.database.name, settings: place.settings },
      poolers.length > 0,
    );
    return [...databases, ...(await poolersResumed(session, target, poolers))];
  } finally {
    await session.close();
  }
}

async function databasesCleaned(
  session: Session,
  options: CleanOptions,
  resumes: boolean,
): Promise<Outcome[]> {
  const { reopened, ...cleaning } = await clean(session, options);
  return [
    ...reopened.map((database) => ({
      what: 'opened' as const,
      words: `${database.name}, which the swap of a dead run had closed${resumes ? '' : whoMayWait(database)}`,
    })),
    ...outcomesOf(cleaning, 'dropped'),
  ];
}

const OPEN = 'SELECT datallowconn AS open FROM pg_database WHERE datname = $1';

async function poolersResumed(
  session: Session,
  { database: { name } }: NamedPlace,
  poolers: readonly ConnectionSettings[],
): Promise<Outcome[]> {
  if (poolers.length === 0) return [];
  const [row] = await session.query<{ open: boolean }>(OPEN, [name]);
  const target = { database: name, port: session.address.port };
  // Its clients would get errors instead of a late answer.
  const closed = row?.open === false;
  return Promise.all(poolers.map((pooler) => poolerResumed(pooler, target, closed)));
}

async function poolerResumed(
  pooler: ConnectionSettings,
  target: PooledTarget,
  closed: boolean,
): Promise<Outcome> {
  const place = `PgBouncer at ${nameConsole(pooler)}`;
  const left = (why: string): Outcome => ({ what: 'left', words: `${place}: ${why}` });
  if (closed) return left(`${target.database} is closed, so its clients go on waiting`);
  try {
    const { aliases, resumed } = await resumePooler(pooler, target);
    if (resumed.length > 0) return { what: 'resumed', words: `${resumed.join(', ')} of ${place}` };
    return aliases.length > 0
      ? left(`nothing of ${target.database} is paused`)
      : left(`it does not lead to ${target.database} on port ${target.port}`);
  } catch (error) {
    return { what: 'failed', words: `${place}: ${messageOf(error)}` };
  }
}

function print({ what, words }: Outcome): void {
  const stream = what === 'failed' ? process.stderr : process.stdout;
  stream.write(`${what === 'dropped' || what === 'removed' ? what : what.padEnd(7)} ${visible(words)}\n`);
}
