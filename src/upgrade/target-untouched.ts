import type { CloneContext } from '../clone/method.ts';
import { SafemigrateError } from '../errors.ts';
import type { Caveat } from '../model/report.ts';
import { compareTarget } from '../proof/compare-target.ts';
import type { TargetState } from '../proof/target-state.ts';
import type { CloneRun, CloneSetup } from '../rehearsal/run-on-clone.ts';
import { uninterrupted } from '../rehearsal/slices.ts';
import { seenCommand } from '../rehearsal/target-steps.ts';

/**
 * Finds out whether the command that belongs to the upgrade left the target alone.
 * @param target the context in which the target is of its own version. @param start its state right before the command.
 * @returns the reasons why that is not proved, if it is not.
 * @throws SafemigrateError `TARGET_CHANGED` if the command connected to the target, or if it changed.
 */
export async function proveUntouched(
  setup: CloneSetup,
  target: CloneContext,
  start: TargetState,
  run: CloneRun,
): Promise<readonly Caveat[]> {
  const [contact] = run.targetConnections;
  if (contact)
    throw new SafemigrateError(
      'TARGET_CHANGED',
      `The command connected to the target itself, as ${contact.user ?? 'an unknown role'}: it may have changed it.`,
      { hint: 'Look at the target. The command has to take its URL from the environment.' },
    );
  const compared = await compareTarget(uninterrupted(target), {
    before: start,
    start,
    command: seenCommand(setup, [run]),
    describeTarget: async () => [],
  });
  if (compared.unchanged === false) {
    const list = compared.changes.map(({ what, evidence }) => `  ${what} (${evidence})`).join('\n');
    throw new SafemigrateError('TARGET_CHANGED', `The target changed while the command ran:\n${list}`, {
      hint: 'Look at the target.',
    });
  }
  return [...run.caveats, ...compared.caveats];
}
