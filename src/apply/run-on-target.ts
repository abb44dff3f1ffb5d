import { commandWithoutSecrets } from '../command/command-secrets.ts';
import { rewriteCommand } from '../command/rewrite.ts';
import { runCommand } from '../command/run-command.ts';
import { readServerIdentity } from '../database/server-identity.ts';
import type { Target } from '../database/target.ts';
import { messageOf, SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import type { Caveat } from '../model/report.ts';
import { openMaintenanceSession } from '../ownership/control-session.ts';
import type { Rehearsal } from '../rehearsal/receipts/receipt-file.ts';
import { rehearsedOf } from '../rehearsal/receipts/rehearsed.ts';
import { ignore, toRun } from '../rehearsal/slices.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import type { ApplyOptions } from './apply-options.ts';
import { basis, NOT_STARTED, type Result } from './apply-section.ts';
import type { Entered } from './enter.ts';
import { startGuardedProxy } from './guardrails/guarded-proxy.ts';
import { inspectOutcome } from './inspect-outcome.ts';
import { openJournal } from './journal.ts';
import { TransactionWatch } from './own-transaction-ids.ts';
import { runAttempts } from './retry/attempts.ts';

export interface Life {
  readonly scope: Scope;
  readonly stop: Stop;
}

/** From here on nothing is given up: whatever happens, the target is looked at in the end. */
export async function runOnTarget(
  { scope, stop }: Life,
  { target, run, logins, input, turn }: Entered,
  given: { rehearsal: Rehearsal; options: ApplyOptions; schema: SchemaWatch; fingerprint: string },
): Promise<Result> {
  const { rehearsal, options } = given;
  const { emit = ignore, audit = ignore, redact = false } = options;
  const { report } = rehearsal;
  const place = await readServerIdentity(turn);
  const transactions = new TransactionWatch(turn);
  const rehearsed = rehearsedOf(report.statements, [report.target.database, report.clone.database]);
  const startedAt = new Date();
  const journal = await openJournal(
    {
      ...{
        run,
        startedAt: startedAt.toISOString(),
        command: commandWithoutSecrets(options.command, logins.logins),
      },
      target: placeOf(target),
      fingerprints: { before: given.fingerprint, rehearsed: report.schema?.after ?? null },
    },
    options.env ?? process.env,
  ).catch((error: unknown) => {
    emit({
      type: 'notice',
      message: `what is done is not recorded, should it be killed: ${messageOf(error)}`,
    });
    return undefined;
  });
  let aborted: string | null = null;
  const wire = await startGuardedProxy(scope, {
    target,
    run,
    logins: logins.logins,
    rehearsed,
    options: {
      ...{ env: options.env ?? process.env, ...options.guardrails, redact },
      ...(options.proxyListen === undefined ? {} : { listen: options.proxyListen }),
    },
    audit,
    emit,
    connect: (purpose) => openMaintenanceSession(target, { purpose, run, audit }),
    observer: (event) => {
      journal?.observe(event);
      transactions.observe(event);
    },
    abort: (reason) => {
      aborted ??= reason.message;
      stop.now(reason);
    },
  });
  const rewritten = rewriteCommand(input, logins, wire.routes);
  const { retries = 0, timeoutMs = 0 } = options;
  const { command, after, attempts, notAgain } = await runAttempts({
    ...{ retries, timeoutMs, wire, emit },
    signal: AbortSignal.any([stop.signal, ...(options.signal ? [options.signal] : [])]),
    run: (withinMs) =>
      inPhase(emit, 'command', () => runCommand({ ...toRun(rewritten, stop, options), timeoutMs: withinMs })),
    look: (command, earlier) =>
      inPhase(emit, 'after', () =>
        inspectOutcome({
          ...given,
          ...{ target, run, audit, wire, transactions, place, rehearsed, command, earlier },
          rehearsedSchema: report.schema,
          // A command that had succeeded by then was not ended by it.
          aborted: aborted ?? (command.exitCode === 0 ? null : (stop.lost?.message ?? null)),
        }),
      ).catch(unknownState),
  });
  const { outcome, reasons } = after.section;
  await journal?.over(outcome);
  const unpinned: Caveat[] =
    place.systemIdentifier === null
      ? [{ path: 'apply.outcome', kind: 'estimate', reason: 'the role may not read which server this is' }]
      : [];
  return {
    section: {
      ...NOT_STARTED,
      ...basis(rehearsal, options),
      ...{ startedAt: startedAt.toISOString(), finishedAt: new Date().toISOString(), command },
      ...after.section,
      attempts: [...attempts],
      reasons: notAgain === null ? reasons : [...reasons, notAgain],
    },
    caveats: [...after.caveats, ...unpinned],
  };
}

function placeOf({ settings, database }: Target): { host: string; port: number; database: string } {
  const [place] = settings.hosts;
  return { host: place?.host ?? '', port: place?.port ?? 0, database: database.name };
}

function unknownState(cause: unknown): never {
  throw new SafemigrateError(
    'TARGET_CHANGED',
    `The command ran on the target, and what became of it could not be found out: ${messageOf(cause)}.`,
    { cause, hint: 'A person must look at the target now. Do not run the command again before that.' },
  );
}
