import type { Clone, CloneContext } from '../clone/method.ts';
import { SafemigrateError } from '../errors.ts';
import type { PostUpgradeCommand } from '../model/upgrade-model.ts';
import { openWire, runThroughWire } from '../rehearsal/run-on-clone.ts';
import type { Lifetime } from '../rehearsal/with-scope.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import type { PreparedUpgrade } from './prepare-upgrade.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/**
 * Runs the command that belongs to the upgrade on the upgraded server, through the proxy, as in a rehearsal.
 * @param context with the new version as the target's.
 * @throws SafemigrateError `TARGET_CHANGED` if the command connected to the target itself.
 */
export async function runPostUpgrade(
  life: Lifetime,
  plan: UpgradePlan,
  context: CloneContext,
  clone: Clone,
  { command, sandbox }: PreparedUpgrade,
  schema: SchemaWatch,
): Promise<PostUpgradeCommand | null> {
  if (command === null) return null;
  const setup = { life, plan, context, clone, schema, sandbox };
  const { result, targetConnections } = await runThroughWire(setup, command, await openWire(setup, command));
  const [contact] = targetConnections;
  if (contact)
    throw new SafemigrateError(
      'TARGET_CHANGED',
      `The command connected to the target itself, as ${contact.user ?? 'an unknown role'}: it may have changed it.`,
      { hint: 'Look at the target. The command has to take its URL from the environment.' },
    );
  const { exitCode, durationMs } = result;
  return { argv: [...plan.command.argv], exitCode, durationMs };
}
