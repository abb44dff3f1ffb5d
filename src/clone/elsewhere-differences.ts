import type { Target } from '../database/target.ts';
import { listed } from '../format.ts';
import type { Caveat } from '../model/report.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import { ifAnswered, withSession } from '../postgres/session-helpers.ts';
import type { CloneContext } from './method.ts';

/** Settings that differ with the class of a machine or its parameters, and change times, plans, locks or what SQL works. */
const SETTINGS = [
  ...[
    'max_connections',
    'max_locks_per_transaction',
    'max_parallel_maintenance_workers',
    'maintenance_work_mem',
  ],
  ...['shared_buffers', 'shared_preload_libraries', 'work_mem'],
];

// A role sees only the settings that it may read.
const FACTS = `
SELECT ARRAY(SELECT extname::text FROM pg_extension ORDER BY 1) AS installed,
       ARRAY(SELECT name::text FROM pg_available_extensions ORDER BY 1) AS available,
       (SELECT json_object_agg(name, current_setting(name)) FROM pg_settings WHERE name = ANY ($1::text[])) AS settings`;

interface ServerFacts {
  readonly installed: readonly string[];
  readonly available: readonly string[];
  readonly settings: Readonly<Record<string, string>>;
}

/**
 * Lists differences between the target and a clone on another server.
 * @param first those that do not depend on the server.
 */
export async function differencesElsewhere(
  context: CloneContext,
  there: Target,
  first: readonly string[],
): Promise<Caveat[]> {
  const { target } = context;
  const reasons = [...first];
  if (there.server.version !== target.server.version)
    reasons.push(
      `its server is PostgreSQL ${there.server.version}, and the target's ${target.server.version}`,
    );
  if (there.settings.user !== target.settings.user)
    reasons.push(`the command connects there as ${there.settings.user}, not as ${target.settings.user}`);
  const own = await factsOf(context, target.settings);
  const others = await factsOf(context, there.settings);
  if (own !== undefined && others !== undefined) reasons.push(...differencesBetween(own, others));
  return reasons.map((reason) => ({ path: 'clone', kind: 'estimate', reason }));
}

function factsOf(
  { audit, signal }: CloneContext,
  settings: ConnectionSettings,
): Promise<ServerFacts | undefined> {
  const opening = openSession(settings, { purpose: 'compare', audit, signal, readOnly: true });
  return withSession(opening, (session) =>
    ifAnswered(
      async () => (await session.query<ServerFacts & Record<string, unknown>>(FACTS, [SETTINGS]))[0],
    ),
  );
}

function differencesBetween(own: ServerFacts, others: ServerFacts): string[] {
  const lacking = (part: 'installed' | 'available') =>
    own[part].filter((name) => !others[part].includes(name));
  // A copy of the files knows an extension whose library its server may lack.
  const extensions = [...new Set([...lacking('installed'), ...lacking('available')])];
  const settings = Object.entries(own.settings).flatMap(([name, value]) => {
    const other = others.settings[name];
    return other === undefined || other === value
      ? []
      : [`its ${name} is ${other || 'empty'}, and the target's ${value || 'empty'}`];
  });
  return [
    ...(extensions.length === 0
      ? []
      : [`it lacks extensions that the target has or offers: ${listed(extensions)}`]),
    ...settings,
  ];
}
