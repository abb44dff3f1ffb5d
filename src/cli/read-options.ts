import { nameHost } from '../target/failures.ts';
import { findTarget } from '../target/locate.ts';
import { surroundings } from '../target/surroundings.ts';
import type { Target } from '../target/target.ts';
import { configSource, environmentSource } from './config.ts';
import {
  CLEAN_OPTIONS,
  flagOf,
  LIST_OPTIONS,
  type OptionTable,
  RUN_OPTIONS,
  readOptions,
  type Values,
} from './options.ts';

/** Flags, then SAFEMIGRATE_* variables, then the config file of the current folder. */
export async function gatherOptions<T extends OptionTable>(
  table: T,
  flags: Record<string, unknown>,
): Promise<Values<T>> {
  const config = await configSource(process.cwd());
  const known = { ...RUN_OPTIONS, ...LIST_OPTIONS, ...CLEAN_OPTIONS };
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

/** The target that a subcommand works on, inspected; undefined when none is named. */
export async function findNamedTarget(
  options: { url?: string; urlEnv?: string },
  signal: AbortSignal,
): Promise<Target | undefined> {
  const located = findTarget(options, surroundings(process.env, process.cwd()));
  if (!located) return undefined;
  const { inspectTarget } = await import('../target/inspect.ts');
  return inspectTarget(located.settings, located.source, { signal });
}
