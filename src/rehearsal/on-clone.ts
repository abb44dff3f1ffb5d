import { prepareClone } from '../clone/after-clone.ts';
import { describeClone } from '../clone/clone-section.ts';
import type { Clone } from '../clone/method.ts';
import { commandWithoutSecrets } from '../command/command-secrets.ts';
import { describeCommand } from '../command/command-section.ts';
import { rewriteCommand } from '../command/rewrite.ts';
import { describeTarget } from '../database/target-section.ts';
import { inPhase } from '../events.ts';
import { reachJudgement } from '../hazards/judgement.ts';
import { DEFAULT_POLICY } from '../hazards/policy.ts';
import type { Report } from '../model/report.ts';
import { watchChecks } from '../observe/checks/check-watch.ts';
import { RehearsalGate } from '../observe/clone-boundary/rehearsal-gate.ts';
import { watchClone } from '../observe/clone-watch.ts';
import { watchCommand } from '../observe/command-watch.ts';
import { runWatched } from '../observe/contact.ts';
import { measureDataLoss } from '../observe/data-loss.ts';
import { explainLoss, untouched } from '../observe/lost-connection.ts';
import { authorship } from '../observe/own-transactions.ts';
import { schemaWithoutSecrets } from '../observe/statement-secrets.ts';
import { beginningNow, compareTarget, type TargetState } from '../observe/target-watch.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import type { Scope } from '../scope.ts';
import type { Stop } from '../stop.ts';
import type { Prepared } from './prepare.ts';
import type { ReceiptIdentity } from './receipts/receipt.ts';
import { identityOf } from './receipts/receipt-file.ts';
import { furtherRuns } from './run-again.ts';
import type { RehearseOptions } from './run-options.ts';
import { contactOptions, guardOptions, ignore, sharesServer, toRun, wireOptions } from './slices.ts';
import { warmUp } from './warm-up.ts';

/** What a rehearsal finds out. */
export type Sections = Omit<Report, 'version' | 'run' | 'cleanup'> & {
  readonly run: RunId;
  readonly before: TargetState;
  readonly identity: ReceiptIdentity;
};

/** Makes the clone, runs the command on it, and compares: all of a rehearsal that comes after looking at the server. */
export async function rehearseOnClone(
  prepared: Prepared,
  { scope, stop, schema }: { scope: Scope; stop: Stop; schema: SchemaWatch },
  options: RehearseOptions,
): Promise<Sections> {
  const { emit = ignore, keep = false } = options;
  const { context, choice, logins, input, down, questions } = prepared;
  const { signal: _, ...ending } = context;
  const clone = await inPhase(emit, 'clone', () =>
    untouched(stop, async () => {
      const made = await choice.method.create(context, choice.assessment, scope);
      return prepareClone(made, prepared.afterClone, context);
    }),
  );
  const watch = watchClone(clone, { ...context, schema });
  const checks = watchChecks(clone, { ...context, ...questions });
  const further = furtherRuns({
    ...{ scope, stop, options, context, clone, schema, down },
    command: prepared,
  });
  const guard = new RehearsalGate(guardOptions(context, clone, options));
  const openWire = () => watchCommand(scope, wireOptions(context, clone, logins, guard, options));
  const { wire, stateBefore } = await inPhase(emit, 'before', () =>
    untouched(stop, async () => {
      await watch.before();
      emit({ type: 'idle' });
      await warmUp();
      const opened = await openWire();
      await checks.before();
      await further.before();
      await opened.lookAround();
      return {
        wire: opened,
        stateBefore: await beginningNow(prepared.stateBefore, ending, { busy: isCounted(clone) }),
      };
    }),
  );

  const rewritten = rewriteCommand(input, logins, wire.routes);
  const { result, newcomers, ...ran } = await inPhase(emit, 'command', () =>
    stop.pausedDuring(() => runWatched(toRun(rewritten, stop, options), contactOptions(context, clone))),
  );

  await wire.end();
  // The command may have done harm: whatever happens from here on, the target is looked at.
  if (stop.lost) throw await explainLoss(stop.lost, { ...ending, before: stateBefore });
  const author = await authorship(wire.own, newcomers, sharesServer(context, clone));
  const observed = await inPhase(emit, 'after', () =>
    watch.after(wire.lockedRelations(), { interrupt: options.signal }),
  );
  const seen = await wire.statements(observed.names, observed.data, observed.made);
  const checked = await inPhase(emit, 'after', () => checks.after(options.signal));
  const followed = await further.run(result, observed.schema);
  if (stop.lost) throw await explainLoss(stop.lost, { ...ending, before: stateBefore });
  const made = describeClone(clone, choice, observed.sizeBytes, await clone.uniqueBytes(), keep);
  const targetConnections = [...ran.targetConnections, ...followed.targetConnections];
  const compared = await compareTarget(ending, {
    before: stateBefore,
    ours: prepared.ours(),
    reachedClone: wire.reached(),
    madeDatabases: [...seen.statements, ...followed.statements].some(({ tag }) =>
      OF_DATABASES.has(tag ?? ''),
    ),
    ownDatabases: clone.made.names,
    targetConnections,
    authors: [author, ...followed.authors],
    cloneChanges: observed.schema?.changes ?? [],
    describeTarget: () => schema.describe(context.target.settings),
  });
  const weighed = await measureDataLoss(ending, { ...observed, ...seen });
  if (keep) await clone.keep();

  const command = describeCommand(
    commandWithoutSecrets(options.command, logins.logins),
    rewritten,
    result,
    {
      reachedClone: wire.reached(),
      refused: guard.refused,
      allowed: guard.allowed,
      redirected: guard.redirected,
    },
    seen.statements,
  );
  const target = describeTarget(context.target, compared.changes, [...clone.touched, ...weighed.touched]);
  const { queries, checks: ownChecks } = checked;
  const sections = {
    target,
    command,
    statements: seen.statements,
    transactions: seen.transactions,
    schema: weighed.schema && schemaWithoutSecrets(weighed.schema),
    data: weighed.data,
    ...{ queries, checks: ownChecks, rerun: followed.rerun, down: followed.down },
    targetConnections,
  };
  const parts = [made, seen, observed, ran, compared, weighed, questions, checked, followed];
  const judgement = reachJudgement(
    {
      ...sections,
      parsed: seen.parsed,
      sessionsWithLockTimeout: seen.sessionsWithLockTimeout,
      catalogue: observed.catalogue,
      traffic: compared.traffic,
      rewrittenBytes: weighed.rewrittenBytes,
      freeBytes: prepared.freeBytes,
      targetWasEmptied: choice.assessment.endsSessions,
      pastApplies: (await options.pastApplies?.(target)) ?? [],
      caveats: parts.flatMap((part) => part.caveats),
      interrupted: options.signal?.aborted ?? false,
    },
    { ...DEFAULT_POLICY, ...options.policy },
    new Date().toISOString().slice(0, 10),
  );
  const identity = identityOf(prepared.context.target, logins, options);
  return {
    ...{ ...NOT_YET, run: context.run, before: stateBefore, identity },
    ...{ clone: made.clone, ...sections, ...judgement },
  };
}

/** pg_dump's transactions and scans are the target's, for its server. Over a longer time they are few, and a long sample is a good one. */
function isCounted({ method, durationMs }: Clone): boolean {
  return method === 'dump' && durationMs < 30_000;
}

const OF_DATABASES = new Set(['CREATE DATABASE', 'DROP DATABASE']);

/** Sections that later parts of the tool fill. */
const NOT_YET = {
  apply: null,
  swap: null,
} satisfies Partial<Report>;
