import { cpSync, symlinkSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import type { ServerVersion } from '../../../src/local-server/binaries.ts';
import { temporaryFolder } from '../cli.ts';
import { LANGUAGES } from '../drivers.ts';
import { toolchain } from '../toolchains.ts';
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

const COUNTERS = `
SELECT relname AS relation, n_tup_ins::int AS inserted, n_tup_upd::int AS updated, n_tup_del::int AS deleted, pg_relation_filenode(relid)::int AS file
FROM pg_stat_user_tables`;

/** Rehearses one command that has all modes of these drivers run their steps, one driver after the other. */
export async function measure<T>(
  version: ServerVersion,
  drivers: readonly MeasuredDriver[],
  cost: Cost,
  judge: (run: MeasuredRun) => T,
  program?: readonly string[],
): Promise<T> {
  const keys = drivers.flatMap(({ name, modes }) => modes.map((mode) => keyOf(name, mode)));
  const folder = await folderOf(drivers, cost);
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

/** The folder that the command runs in: programs, their steps, and what to start. */
async function folderOf(drivers: readonly MeasuredDriver[], cost: Cost): Promise<string> {
  const folder = temporaryFolder();
  const installed = new Map<MeasuredDriver['language'], string>([[null, '']]);
  const commands: (readonly string[])[] = [];
  const steps: Record<string, Record<string, unknown>> = {};
  for (const { name, modes, language, command, scripts } of drivers) {
    if (language && !installed.has(language)) installed.set(language, await installedIn(folder, language));
    commands.push(command(installed.get(language) ?? ''));
    steps[name] = Object.fromEntries(modes.map((mode) => [mode, stepsOf(keyOf(name, mode), cost)]));
    for (const mode of modes)
      for (const [file, text] of Object.entries(scripts?.(mode, stepsOf(keyOf(name, mode), cost)) ?? {}))
        writeFileSync(path.join(folder, file), text);
  }
  writeFileSync(path.join(folder, 'steps.json'), JSON.stringify(steps));
  writeFileSync(path.join(folder, 'programs.json'), JSON.stringify(commands));
  return folder;
}

async function installedIn(folder: string, language: keyof typeof LANGUAGES): Promise<string> {
  const { folder: fixture, toolchain: wanted } = LANGUAGES[language];
  const found = await toolchain(`drivers-${language}`, fixture, wanted);
  if ('missing' in found) throw new Error(found.missing);
  cpSync(fixture, folder, { recursive: true });
  if (language === 'node')
    symlinkSync(path.join(found.folder, 'node_modules'), path.join(folder, 'node_modules'));
  return found.folder;
}
