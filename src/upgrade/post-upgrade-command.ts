import type { Clone, CloneContext } from '../clone/method.ts';
import { inClone } from '../clone/own-sessions.ts';
import { commandWithoutSecrets } from '../command/command-secrets.ts';
import { SafemigrateError } from '../errors.ts';
import type { Caveat } from '../model/report.ts';
import type { PostUpgradeCommand } from '../model/upgrade-model.ts';
import type { CommandWatch, SeenStatements } from '../observe/command-watch.ts';
import { allRelations, givenRelations } from '../observe/relation-names.ts';
import { compareRelations, readRelations } from '../observe/relations.ts';
import { FIRST_USER_OID } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import { compareTarget } from '../proof/compare-target.ts';
import { readTargetState, type TargetState } from '../proof/target-state.ts';
import { type CloneRun, type CloneSetup, openWire, runThroughWire } from '../rehearsal/run-on-clone.ts';
import { seenCommand, uninterrupted } from '../rehearsal/target-steps.ts';
import type { Lifetime } from '../rehearsal/with-scope.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import type { PreparedUpgrade } from './prepare-upgrade.ts';
import type { UpgradePlan } from './upgrade-plan.ts';

/**
 * Runs the command that belongs to the upgrade on the upgraded server, through the proxy, as in a rehearsal.
 * @param context with the new version as the target's.
 * @returns null as the command if there is none.
 * @throws SafemigrateError `TARGET_CHANGED` if the command connected to the target itself, or if it changed.
 */
export async function runPostUpgrade(
  life: Lifetime,
  plan: UpgradePlan,
  context: CloneContext,
  clone: Clone,
  { command, sandbox, context: target }: Pick<PreparedUpgrade, 'command' | 'sandbox' | 'context'>,
  schema: SchemaWatch,
): Promise<{ command: PostUpgradeCommand | null; caveats: readonly Caveat[] }> {
  if (command === null) return { command: null, caveats: [] };
  const setup = { life, plan, context, clone, schema, sandbox };
  const before = await inClone({ clone, context }, readBefore);
  const open = await openWire(setup, command, { settings: { stdout: plan.command.stdout } });
  const start = await readTargetState(uninterrupted(target));
  const ran = await runThroughWire(setup, command, open);
  const caveats = await proveUntouched(setup, target, start, ran);
  const seen = await inClone({ clone, context }, (session) => statementsOf(session, open.wire, before));
  const { exitCode, durationMs } = ran.result;
  const { statements, transactions } = seen;
  const argv = commandWithoutSecrets(plan.command.argv, command.logins.logins);
  return {
    command: { argv, exitCode, durationMs, statements, transactions },
    caveats: [...caveats, ...seen.caveats.map(ofCommand)],
  };
}

function ofCommand(caveat: Caveat): Caveat {
  return { ...caveat, path: `command.${caveat.path}` };
}

async function readBefore(session: Session) {
  return { tree: await allRelations(session), relations: await readRelations(session) };
}

/** Returns the statements of the command, with the names of the relations that it locked and rewrote. */
async function statementsOf(
  session: Session,
  wire: CommandWatch,
  { tree, relations }: Awaited<ReturnType<typeof readBefore>>,
): Promise<SeenStatements> {
  const locked = wire.lockedRelations();
  const now = await givenRelations(session, locked);
  // Other sessions cannot see it yet, and so do not wait for it.
  const made = new Set([...now.keys()].filter((oid) => oid >= FIRST_USER_OID && !tree.has(oid)));
  const rewritten = compareRelations(relations, await readRelations(session, relations), 0);
  return wire.statements({ tree: new Map([...tree, ...now]), made, data: rewritten.section });
}

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
  const command = seenCommand(setup, [run]);
  const compared = await compareTarget(uninterrupted(target), { before: start, start }, command);
  if (compared.unchanged === false) {
    const list = compared.changes.map(({ what, evidence }) => `  ${what} (${evidence})`).join('\n');
    throw new SafemigrateError('TARGET_CHANGED', `The target changed while the command ran:\n${list}`, {
      hint: 'Look at the target.',
    });
  }
  return [...run.caveats, ...compared.caveats];
}
