import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import { temporaryFolder } from '../cli.ts';
import { LANGUAGES } from '../drivers.ts';
import { toolchain } from '../toolchains.ts';
import { disagreements, lastingDisagreements } from './disagreements.ts';
import { keyOf, type MeasuredDriver } from './modes.ts';
import { type LoggedExecution, readServerLog } from './server-log.ts';
import { type Cost, stepsOf, tablesOf } from './steps.ts';
import { rehearseUnderWatch, type WatchedRehearsal } from './watched-rehearsal.ts';

/** A rehearsal of the steps of some drivers. */
export interface MeasuredRun extends WatchedRehearsal {
  readonly executions: readonly LoggedExecution[];
  readonly keys: readonly string[];
  /** Counters and files in the clone after the run. */
  readonly counters: readonly Counters[];
}

interface Counters {
  readonly relation: string;
  readonly inserted: number;
  readonly updated: number;
  readonly deleted: number;
  readonly file: number;
}

/** The server counts what was rolled back as well: all that the steps delete in the tables `undone`. */
const COUNTERS = `
SELECT relname AS relation, n_tup_ins::int AS inserted, n_tup_upd::int AS updated,
  CASE WHEN relname LIKE '%\\_undone' THEN 0 ELSE n_tup_del END::int AS deleted, pg_relation_filenode(relid)::int AS file
FROM pg_stat_user_tables`;

interface Measuring {
  readonly drivers: readonly MeasuredDriver[];
  readonly cost: Cost;
  /** Of so many drivers the programs run at the same time. */
  readonly atOnce: number;
  /** What is tried: a build of the program. */
  readonly program?: readonly string[];
}

/** Rehearses one command that has all modes of these drivers run their steps. */
export async function measure<T>(
  version: ServerVersion,
  { drivers, cost, atOnce, program }: Measuring,
  judge: (run: MeasuredRun) => T,
): Promise<T> {
  const keys = drivers.flatMap(({ name, modes }) => modes.map((mode) => keyOf(name, mode)));
  const folder = await folderOf(drivers, cost, atOnce);
  return rehearseUnderWatch(
    version,
    { sql: tablesOf(keys, cost), folder, ...(program && { program }) },
    async (rehearsal) => {
      const counters = await rehearsal.inClone((client) => client.query<Counters>(COUNTERS));
      const executions = readServerLog(rehearsal.log, rehearsal.report.clone.database);
      return judge({ ...rehearsal, executions, keys, counters: counters.rows });
    },
  );
}

const AT_ONCE = 4;

/**
 * What the report says of each mode of these drivers otherwise than its sources, in the end. At first several drivers run at the
 * same time; those about which there is a doubt run again by themselves.
 */
export async function wrongNumbersOf(
  version: ServerVersion,
  drivers: readonly MeasuredDriver[],
  cost: Cost,
): Promise<string[]> {
  return lastingDisagreements((doubts) => {
    const doubted = drivers.filter(({ name, modes }) =>
      modes.some((mode) => doubts.some(({ number }) => number.includes(keyOf(name, mode)))),
    );
    if (doubts.length === 0) return measure(version, { drivers, cost, atOnce: AT_ONCE }, disagreements);
    return measure(
      version,
      { drivers: doubted.length > 0 ? doubted : drivers, cost, atOnce: 1 },
      disagreements,
    );
  });
}

/** The folder that the command runs in: programs, their steps, and what to start. */
async function folderOf(drivers: readonly MeasuredDriver[], cost: Cost, atOnce: number): Promise<string> {
  const folder = temporaryFolder();
  const installed = new Map<MeasuredDriver['language'], string>([[null, '']]);
  const commands: (readonly string[])[] = [];
  const steps: Record<string, Record<string, unknown>> = {};
  for (const { name, modes, language, command, scripts } of drivers) {
    if (language && !installed.has(language)) installed.set(language, await installedIn(folder, language));
    commands.push(command(installed.get(language) ?? ''));
    steps[name] = Object.fromEntries(modes.map((mode) => [mode, stepsOf(keyOf(name, mode), cost)]));
    for (const mode of modes)
      for (const [file, text] of Object.entries(scripts?.(mode, stepsOf(keyOf(name, mode), cost)) ?? {})) {
        mkdirSync(path.dirname(path.join(folder, file)), { recursive: true });
        writeFileSync(path.join(folder, file), text);
      }
  }
  writeFileSync(path.join(folder, 'steps.json'), JSON.stringify(steps));
  writeFileSync(path.join(folder, 'programs.json'), JSON.stringify({ atOnce, programs: commands }));
  return folder;
}

async function installedIn(folder: string, language: keyof typeof LANGUAGES): Promise<string> {
  const { folder: fixture, toolchain: wanted, installedAs, place } = LANGUAGES[language];
  const found = await toolchain(installedAs, fixture, wanted);
  if ('missing' in found) throw new Error(found.missing);
  cpSync(fixture, path.join(folder, place), { recursive: true });
  const modules = path.join(found.folder, 'node_modules');
  if (existsSync(modules)) symlinkSync(modules, path.join(folder, place, 'node_modules'));
  return found.folder;
}
