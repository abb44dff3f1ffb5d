import type { Clone, CloneContext } from '../clone/method.ts';
import { loginThere, targetThere } from '../clone/private/private-server.ts';
import type { StartedCopy } from '../clone/private-cluster.ts';
import type { Target } from '../database/target.ts';
import { measured } from '../measured.ts';
import type { Caveat, SchemaChange } from '../model/report.ts';
import type { ApplicationSection } from '../model/upgrade-model.ts';
import { runChecksAfter, runChecksBefore } from '../observe/checks/check-watch.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import type { PreparedUpgrade } from './prepare-upgrade.ts';

/** Answers of the target's database on the old version. */
export type OldAnswers = Awaited<ReturnType<typeof askOldVersion>>;

/** Ways to log in to a copy of the target. */
export interface CopyLogins {
  /** For reading the schema, as the strongest role that there is. */
  readonly schema: ConnectionSettings;
  /** For the application's queries and the user's checks, as the target's own role. */
  readonly checks: Pick<Clone, 'connect' | 'sharesRoles'>;
}

export function loginsToCopy(
  target: Target,
  { place, original }: Pick<StartedCopy, 'place' | 'original'>,
): CopyLogins {
  return {
    schema: targetThere(target, place, original.superuser).settings,
    checks: { connect: loginThere(target.settings, place), sharesRoles: true },
  };
}

/** Reads the schema, and tries the application's queries and the user's checks, on a copy of the old version. */
export async function askOldVersion(
  { context, questions }: Pick<PreparedUpgrade, 'context' | 'questions'>,
  logins: CopyLogins,
  schema: SchemaWatch,
) {
  await schema.before(logins.schema, { run: context.run });
  const checks = await runChecksBefore(logins.checks, { ...context, ...questions });
  return { checks, schema, questions };
}

/** Compares the schema right after the upgrade. @param settings of the schema's login. @returns nulls if it could not be compared: the caveats say why. */
export async function compareUpgradedSchema(
  settings: ConnectionSettings,
  { schema }: Pick<OldAnswers, 'schema'>,
  caveats: Caveat[],
): Promise<Pick<ApplicationSection, 'schemaChanges' | 'unmodeled'>> {
  const found = await measured(caveats, 'application.schemaChanges', () => schema.upgraded(settings));
  if (found === null) return { schemaChanges: null, unmodeled: null };
  return { schemaChanges: withoutExplained(found.changes), unmodeled: found.unmodeled };
}

/** Tries the queries and checks on the upgraded server, once its statistics are there. */
export async function askNewVersion(
  context: CloneContext,
  clone: Pick<Clone, 'connect' | 'sharesRoles'>,
  { checks: before, questions }: OldAnswers,
): Promise<Pick<ApplicationSection, 'queries' | 'checks'> & { caveats: readonly Caveat[] }> {
  return runChecksAfter(clone, { ...context, ...questions }, before, null, context.signal);
}

/** All privileges on a table, from version 17 on: owners have them before and after, and are said to have gained MAINTAIN. */
const ALL_PRIVILEGES =
  /^GRANT DELETE, INSERT, MAINTAIN, REFERENCES, SELECT, TRIGGER, TRUNCATE, UPDATE ON TABLE .* TO (.*)$/s;
const REVOKED = /^REVOKE ALL ON TABLE .* FROM (.*)$/s;

/**
 * Leaves out what only looks different because another version describes it: from 17 on there is the privilege MAINTAIN, and each
 * version has more properties of subscriptions, which pg_upgrade disables besides.
 */
export function withoutExplained(changes: readonly SchemaChange[]): SchemaChange[] {
  const granted = new Set(
    changes.flatMap(({ object, sql }) => {
      const holder = ALL_PRIVILEGES.exec(sql)?.[1];
      return holder === undefined ? [] : [`${object} ${holder}`];
    }),
  );
  return changes.filter(({ verb, kind, object, sql }) => {
    if (verb === 'alter' && kind === 'subscription') return false;
    const holder = (ALL_PRIVILEGES.exec(sql) ?? REVOKED.exec(sql))?.[1];
    return holder === undefined || !granted.has(`${object} ${holder}`);
  });
}
