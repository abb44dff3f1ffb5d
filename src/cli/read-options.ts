import { findTarget } from '../database/locate.ts';
import type { Target } from '../database/target.ts';
import type { MaintenanceTarget } from '../ownership/control-session.ts';
import { nameHost } from '../postgres/connection/connection-failures.ts';
import { readEnvironment } from '../postgres/connection/environment.ts';
import { configSource, environmentSource } from './config.ts';
import { flagOf, type OptionTable, RUN_OPTIONS, readOptions, type Values } from './options-table.ts';
import { subcommands } from './subcommands.ts';

/** Flags, then SAFEMIGRATE_* variables, then the config file of the current folder. */
export async function gatherOptions<T extends OptionTable>(
  table: T,
  flags: Record<string, unknown>,
): Promise<Values<T>> {
  const config = await configSource(process.cwd());
  const known = Object.assign({}, RUN_OPTIONS, ...subcommands().map(([, { options }]) => options));
  return readOptions(table, known, [
    { strict: true, values: flags, nameOf: flagOf },
    environmentSource(table, process.env),
    ...(config ? [config] : []),
  ]);
}

/** For people: which server a subcommand looks at, and where it has that from. */
export function nameServer({ settings, source }: Pick<Target, 'settings' | 'source'>): string {
  return `${settings.hosts.map(nameHost).join(', ')} (from ${source})`;
}

/** A server that was named, and the target on it, which may be closed or gone. */
export interface NamedPlace extends MaintenanceTarget {
  readonly source: string;
}

/** Where a subcommand works; undefined when no target is named. Nothing is connected to. */
export function findNamedPlace(options: { url?: string; urlEnv?: string }): NamedPlace | undefined {
  const located = findTarget(options, readEnvironment(process.env, process.cwd()));
  return located && { ...located, database: { name: located.settings.database } };
}
