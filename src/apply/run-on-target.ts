import { steadyDate } from '../clock.ts';
import { commandWithoutSecrets } from '../command/command-secrets.ts';
import { placeConfigCopies } from '../command/config-files.ts';
import { rewriteCommand } from '../command/rewrite.ts';
import { runCommand } from '../command/run-command.ts';
import { readServerIdentity } from '../database/server-identity.ts';
import { messageOf, SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import type { Caveat } from '../model/report.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import type { Observer } from '../proxy/observed.ts';
import type { Rehearsal } from '../rehearsal/receipts/receipt.ts';
import { rehearsedOf } from '../rehearsal/receipts/rehearsed.ts';
import { toRun } from '../rehearsal/run-on-clone.ts';
import type { Lifetime } from '../rehearsal/with-scope.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import type { ApplyPlan } from './apply-plan.ts';
import { type ApplyResult, applyBasis, NOT_STARTED } from './apply-section.ts';
import type { EnteredTarget } from './enter-target.ts';
import { type GuardedParts, type GuardedWatch, startGuardedProxy } from './guardrails/guarded-proxy.ts';
import { readTargetNames } from './guardrails/target-names.ts';
import { inspectOutcome } from './inspect-outcome.ts';
import { type Journal, openJournal } from './journal.ts';
import { TransactionWatch } from './own-transaction-ids.ts';
import { runAttempts } from './retry/attempts.ts';

/** Input of an apply. */
interface ApplyInput {
  readonly rehearsal: Rehearsal;
  readonly plan: ApplyPlan;
  readonly schema: SchemaWatch;
  /** Fingerprint of the target's schema right before the command. */
  readonly fingerprint: string;
}

/** Runs the command on the target, and inspects the target afterwards whatever happened. */
export async function runOnTarget(
  scope: Scope,
  stop: Stop,
  locked: EnteredTarget,
  given: ApplyInput,
): Promise<ApplyResult> {
  const { rehearsal, plan, schema, fingerprint } = given;
  const { target, run, inside } = locked;
  const { report } = rehearsal;
  const { emit, audit, retries, signal } = plan;
  const server = await readServerIdentity(inside);
  const transactions = new TransactionWatch(inside);
  const rehearsed = rehearsedOf(report.statements, [report.target.database, report.clone.database]);
  const startedAt = steadyDate().toISOString();
  const journal = await startJournal(startedAt, locked, given);
  const observer: Observer = (event) => {
    journal?.observe(event);
    transactions.observe(event);
  };
  const onPause = (isPaused: boolean) => journal?.paused(isPaused);
  const compared = { rehearsed, names: await readTargetNames(inside) };
  const proxy = await startProxy({ scope, stop }, locked, plan, compared, { observer, onPause });
  const rewritten = await placeConfigCopies(scope, rewriteCommand(locked.input, locked.logins, proxy.routes));
  const { command, after, attempts, notAgain } = await runAttempts({
    retries,
    retryOn: plan.guardrails.retryOn,
    timeoutMs: plan.command.timeoutMs,
    proxy,
    emit,
    signal: AbortSignal.any([stop.signal, signal]),
    run: (limitMs) =>
      inPhase(emit, 'command', () =>
        runCommand(toRun(rewritten, stop, { ...plan.command, timeoutMs: limitMs }, proxy.routes)),
      ),
    inspect: (command, earlier) =>
      inPhase(emit, 'after', () =>
        inspectOutcome({
          schema,
          fingerprint,
          target,
          run,
          audit,
          proxy,
          transactions,
          server,
          rehearsed,
          command,
          earlier,
          rehearsedSchema: report.schema,
          mustChange: plan.policy.expect === 'changes',
          // A lost connection did not end a command that had succeeded by then.
          aborted: proxy.abortReason() ?? (command.exitCode === 0 ? null : (stop.lost?.message ?? null)),
        }),
      ).catch(unknownOutcome),
  });
  await journal?.end(after.section.outcome);
  const reasons = [...after.section.reasons, ...(notAgain === null ? [] : [notAgain])];
  const finishedAt = steadyDate().toISOString();
  const facts = { startedAt, finishedAt, command, attempts: [...attempts], reasons };
  return {
    section: { ...NOT_STARTED, ...applyBasis(rehearsal, plan), ...after.section, ...facts },
    caveats: [...after.caveats, ...(server.systemIdentifier === null ? [UNKNOWN_SYSTEM] : [])],
    run,
  };
}

const UNKNOWN_SYSTEM: Caveat = {
  path: 'apply.outcome',
  kind: 'estimate',
  reason: 'the role may not read the system identifier',
};

/** Without a journal the command runs all the same: it only helps after a kill. */
async function startJournal(
  startedAt: string,
  { run, target: { settings, database }, logins }: EnteredTarget,
  { rehearsal, plan, fingerprint }: ApplyInput,
): Promise<Journal | undefined> {
  const [place] = settings.hosts;
  const target = { host: place?.host ?? '', port: place?.port ?? 0, database: database.name };
  const command = commandWithoutSecrets(plan.command.argv, logins.logins);
  const fingerprints = { before: fingerprint, rehearsed: rehearsal.report.schema?.after ?? null };
  try {
    return await openJournal({ run, startedAt, command, target, fingerprints }, plan.command.env);
  } catch (error) {
    const message = `the apply keeps no journal, so \`safemigrate list\` will know nothing of it if it is killed: ${messageOf(error)}`;
    plan.emit({ type: 'notice', message });
    return undefined;
  }
}

function startProxy(
  { scope, stop }: Lifetime,
  { target, run, logins: { logins } }: EnteredTarget,
  { emit, audit, redact, guardrails, proxy, command }: ApplyPlan,
  compared: Pick<GuardedParts, 'rehearsed' | 'names'>,
  watches: Required<Pick<GuardedParts, 'observer' | 'onPause'>>,
): Promise<GuardedWatch> {
  return startGuardedProxy(scope, {
    target,
    run,
    logins,
    ...compared,
    audit,
    emit,
    guardrails,
    redact,
    listen: proxy.listen,
    env: command.env,
    connect: (purpose) => openMaintenanceSession(target, { purpose, run, audit }),
    ...watches,
    abort: (reason) => stop.now(reason),
  });
}

function unknownOutcome(cause: unknown): never {
  throw new SafemigrateError(
    'TARGET_CHANGED',
    `The command ran on the target, and its outcome could not be found out: ${messageOf(cause)}.`,
    { cause, hint: 'A person must check the target now. Do not run the command again before that.' },
  );
}
