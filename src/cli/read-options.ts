import { findTarget } from '../database/locate.ts';
import type { Target } from '../database/target.ts';
import type { MaintenanceTarget } from '../ownership/control-session.ts';
import { nameHost } from '../postgres/connection/connection-failures.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import { REHEARSAL_SETTINGS } from '../rehearsal/rehearsal-settings.ts';
import { type OptionsOf, type RunMode, type SettingTree, settingsIn } from '../settings.ts';
import { configProgram, configSource, environmentSource, flagSource } from './options/config.ts';
import { readValues } from './options/read-values.ts';
import { MODE_SETTINGS, RUN_SETTINGS, type RunValues } from './options/run-table.ts';
import { subcommands } from './options/subcommand-table.ts';

/**
 * Reads the flags, then SAFEMIGRATE_* variables, then the config file of the current folder. Only what runs a command of the
 * user's executes a config file that is a program: others have tokens, or work where nothing of the code under test is to run.
 */
export async function gatherOptions<T extends SettingTree>(
  tree: T,
  flags: Record<string, unknown>,
  executes = false,
): Promise<OptionsOf<T>> {
  const folder = process.cwd();
  const config = await configSource(folder, executes);
  const program =
    executes || !settingsIn(tree).includes(REHEARSAL_SETTINGS.target.urlEnv)
      ? undefined
      : configProgram(folder);
  if (program !== undefined)
    process.stderr.write(
      `${program} holds for rehearsals: this subcommand executes no program of the project, and takes flags and variables.\n`,
    );
  const known = [RUN_SETTINGS, ...subcommands().map(([, { options }]) => options)];
  return readValues(tree, known, [
    flagSource(tree, flags),
    environmentSource(tree, process.env),
    ...(config ? [config] : []),
  ]);
}

/** Reads the options of a run. @throws SafemigrateError `CONFIGURATION` */
export function gatherRunOptions(flags: Record<string, unknown>, mode: RunMode): Promise<RunValues> {
  return gatherOptions(MODE_SETTINGS[mode], flags, true);
}

/** Names the server that a subcommand works on, and the setting that it comes from. */
export function nameServer({ settings, source }: Pick<Target, 'settings' | 'source'>): string {
  return `${settings.hosts.map(nameHost).join(', ')} (from ${source})`;
}

/** A server that was named, and the target on it, which may be closed or gone. */
export interface NamedPlace extends MaintenanceTarget {
  readonly source: string;
}

/** Finds the place that a subcommand works on, without connecting; undefined if no target is named. */
export function findNamedPlace(named: Parameters<typeof findTarget>[0] = {}): NamedPlace | undefined {
  const located = findTarget(named, readEnvironment(process.env, process.cwd()));
  return located && { ...located, database: { name: located.settings.database } };
}
