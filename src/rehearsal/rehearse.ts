import { steadyDate } from '../clock.ts';
import { inPhase } from '../events.ts';
import type { Report } from '../model/report.ts';
import { accountedFor, untouched } from '../proof/lost-connection.ts';
import { makeClone } from './clone-again.ts';
import { readAfter, readBefore } from './clone-steps.ts';
import type { FirstRun } from './extra-run.ts';
import { runFurther } from './further-runs.ts';
import { assembleReport, judgeRehearsal, type RehearsalSections, redactIfAsked } from './judge-rehearsal.ts';
import type { RehearsalPlan } from './plan.ts';
import { prepare } from './prepare.ts';
import { keepReceipt } from './receipts/receipt.ts';
import { type CloneSetup, type OpenGuarded, runMigration } from './run-on-clone.ts';
import { withSizesCaveat } from './sizes-caveat.ts';
import { compareWithTarget, measureLoss, uninterrupted } from './target-steps.ts';
import { type Lifetime, openSchemaReader, withScope } from './with-scope.ts';

// One rehearsal, in the order of its steps:
//
//   prepare              connect, inspect, claim the run, find the command's logins, choose a clone method, read the target
//   makeClone            by the method that was chosen; then the scripts of --after-clone
//   readBefore           the clone's schema and data, queries and checks; the target once more; the proxy opens
//   runMigration         the command, through the proxy, on the clone
//   readAfter            the clone again: what changed, what the command sent, whether queries and checks still hold
//   runFurther           --script, --at-once, --propose, --rerun, --down, --app and --load
//   compareWithTarget    whether the target is as it was, and who changed it if not
//   measureLoss          what of the target's data the command would lose
//   judgeRehearsal       hazards, forecast, policy, verdict
//   assembleReport       after the scope has released everything, the clone among it

/**
 * Rehearses a migration command on a clone of its target, and cleans up however it ends.
 * @throws SafemigrateError if there is nothing to report on: the command was never started, or the server was lost.
 */
export async function performRehearsal(plan: RehearsalPlan): Promise<Report> {
  const remembered = await rehearseAndRemember(plan);
  const report = withSizesCaveat(remembered.report, plan);
  await keepReceipt(report, remembered.identity, plan);
  return redactIfAsked(report, plan);
}

/** Reads the clone for a swap: right before the command, right after it, and once everything is known. */
export interface CloneReader {
  before(setup: CloneSetup): Promise<void>;
  after(setup: CloneSetup, ran: FirstRun['ran']): Promise<void>;
  judge(first: FirstRun): Promise<void>;
}

/**
 * Rehearses as performRehearsal() does, and returns also what an apply or a swap needs to know of the rehearsal before it.
 * @param openGuarded for a second run under load, guarded as the apply will be; null: no apply is to follow.
 * @param reader for what a swap needs to know of the clone.
 */
export async function rehearseAndRemember(
  plan: RehearsalPlan,
  openGuarded: OpenGuarded | null = null,
  reader?: CloneReader,
): Promise<ReturnType<typeof assembleReport>> {
  const startedAt = steadyDate();
  const { result, cleanup } = await withScope(plan, (scope, stop) =>
    rehearseWithin({ scope, stop }, plan, openGuarded, reader),
  );
  return assembleReport(result, cleanup, startedAt);
}

async function rehearseWithin(
  life: Lifetime,
  plan: RehearsalPlan,
  openGuarded: OpenGuarded | null,
  reader?: CloneReader,
): Promise<RehearsalSections> {
  const { scope, stop } = life;
  const schema = await openSchemaReader(scope, plan);
  const prepared = await untouched(stop, () => prepare(scope, stop, plan), { connected: false });
  const { context, stateBefore } = prepared;
  const clone = await untouched(stop, () =>
    inPhase(plan.emit, 'clone', () => makeClone(context, prepared, scope, plan.proxy)),
  );
  const setup = { life, plan, context, clone, schema, sandbox: prepared.sandbox };
  const before = await untouched(stop, () => readBefore(setup, prepared));
  await untouched(stop, async () => reader?.before(setup));
  return accountedFor(stop, uninterrupted(context), stateBefore, async () => {
    const ran = await runMigration(setup, prepared.command, before.open);
    stop.throwIfLost();
    await reader?.after(setup, ran);
    const after = await readAfter(setup, prepared, before, ran);
    const first = { setup, prepared, before, ran, after, openGuarded };
    await reader?.judge(first);
    const further = await runFurther(first);
    stop.throwIfLost();
    const target = await compareWithTarget(first, further);
    const loss = await measureLoss(first, stateBefore);
    const uniqueBytes = await clone.uniqueBytes();
    if (plan.clone.keep) await clone.keep();
    return judgeRehearsal(first, further, { target, loss, uniqueBytes });
  });
}
