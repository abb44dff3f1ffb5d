import type { Identity } from './apply/receipt.ts';
import { watchChecks } from './checks/watch.ts';
import { prepareClone } from './clone/after-clone.ts';
import { cloneSection } from './clone/section.ts';
import { rewriteCommand } from './command/rewrite.ts';
import { withoutSecrets } from './command/secrets.ts';
import { commandSection } from './command/section.ts';
import { SafemigrateError } from './errors.ts';
import { inPhase } from './events.ts';
import { formatDuration } from './format.ts';
import { reachJudgement } from './judge/judgement.ts';
import { DEFAULT_POLICY } from './judge/policy.ts';
import { watchClone } from './observe/clone-watch.ts';
import { watchCommand } from './observe/command-watch.ts';
import { runWatched } from './observe/contact.ts';
import { Guard } from './observe/guard.ts';
import { explainLoss, untouched } from './observe/loss.ts';
import { authorship } from './observe/own-transactions.ts';
import { schemaWithoutSecrets } from './observe/secrets.ts';
import { compareTarget, readTargetState, type TargetState } from './observe/target-watch.ts';
import { weighTarget } from './observe/weigh.ts';
import { toolVersion } from './package.ts';
import type { Report, SwapSection } from './report/model.ts';
import { identityOf, keepReceipt, readRehearsal } from './run/apply/receipt-file.ts';
import { refuseEarly } from './run/apply/refuse-early.ts';
import { applyRehearsed } from './run/apply.ts';
import type { ApplyOptions, RehearseOptions, SwapOptions } from './run/asked.ts';
import { exchangeTarget, FOR_EXCHANGE, reasonsAgainst, refused } from './run/exchange.ts';
import { furtherRuns } from './run/further.ts';
import { contactOptions, guardOptions, ignore, sharesServer, toRun, wireOptions } from './run/options.ts';
import { prepare } from './run/prepare.ts';
import { warmUp } from './run/warm-up.ts';
import { withScope } from './run/with-scope.ts';
import { openSchemaWatch, type SchemaWatch } from './schema/watch.ts';
import type { Cleanup, Scope } from './scope.ts';
import type { Stop } from './stop.ts';
import { targetSection } from './target/section.ts';
import type { RunId } from './upkeep/run-id.ts';

/**
 * Rehearses a migration command on a clone of its target, and cleans up in every ending.
 * @throws SafemigrateError when there is nothing to report on: the command was never started, or the server was lost.
 */
export async function rehearse(options: RehearseOptions): Promise<Report> {
  const { report, identity } = await rehearseAndRemember(options);
  await keepReceipt(report, identity, options);
  return shown(report, options);
}

/** Everything is found out and compared as it is; what is not to be told is taken out at the end. */
async function shown(report: Report, { redact = false }: RehearseOptions): Promise<Report> {
  if (!redact) return report;
  const { redactReport } = await import('./observe/redact-report.ts');
  return redactReport(report);
}

/** What an apply or a swap needs to know of the rehearsal before it. */
interface Remembered {
  readonly report: Report;
  /** The target as it was before the rehearsal. */
  readonly before: TargetState;
  readonly identity: Identity;
}

async function rehearseAndRemember(options: RehearseOptions): Promise<Remembered> {
  const startedAt = new Date();
  const { result, cleanup } = await withScope(options, (scope, stop) => rehearseWithin(scope, stop, options));
  const { run, before, identity, ...sections } = result;
  const report: Report = {
    version: 1,
    run: {
      id: run,
      startedAt: startedAt.toISOString(),
      finishedAt: new Date().toISOString(),
      mode: 'rehearse',
      tool: { name: 'safemigrate', version: toolVersion() },
    },
    ...sections,
    cleanup,
  };
  return { report, before, identity };
}

/**
 * Rehearses; then closes the target, clones it, runs the command on the clone, and gives the clone the target's name in one
 * transaction. What fails before that leaves the target as it was, and open.
 * @throws SafemigrateError what rehearse() throws; `TARGET_CHANGED` where the target could not be opened again.
 */
export async function swap(options: SwapOptions): Promise<Report> {
  if (options.from !== undefined)
    throw new SafemigrateError(
      'USAGE',
      '--from rehearses on a dump: there is no target that could be swapped.',
    );
  return shown(await rehearseAndSwap(options), options);
}

async function rehearseAndSwap(options: SwapOptions): Promise<Report> {
  const { report, before } = await rehearseAndRemember(options);
  const inSwap = (section: SwapSection): Report => ({
    ...report,
    run: { ...report.run, mode: 'swap', finishedAt: new Date().toISOString() },
    swap: section,
  });
  if (!report.verdict.pass) return inSwap(refused(['the rehearsal did not pass']));
  const expectedMs = report.clone.durationMs + report.command.durationMs;
  if (expectedMs > (options.maxClosedMs ?? Number.POSITIVE_INFINITY))
    return inSwap(refused([tooLong(expectedMs)]));
  // The target may change while a person thinks; what stands against it is looked for afterwards.
  if (!(await options.confirm(report))) return inSwap(refused(['it was not confirmed']));
  // Of the target itself a clone is made, wherever the rehearsal was.
  const { rehearsalUrl: _, ...here } = options;
  const { result, cleanup } = await withScope(options, async (scope, stop) => {
    const prepared = await prepare(scope, stop, { ...here, ...FOR_EXCHANGE });
    const reasons = await reasonsAgainst(prepared, before, options);
    if (reasons.length > 0) return refused(reasons);
    return exchangeTarget(prepared, { scope, stop }, options);
  });
  return withCleanup(inSwap(result), cleanup);
}

/** Beyond these a target that changes all the time is not rehearsed on again. */
const REHEARSALS = 3;

/**
 * Rehearses, and runs the command on the target itself where the rehearsal passed and still holds. A target that changed
 * meanwhile is rehearsed on again. A receipt stands for the rehearsal.
 * @throws SafemigrateError what rehearse() throws; `REFUSED`; `TARGET_CHANGED` where it is not known what became of the command.
 */
export async function apply(options: ApplyOptions): Promise<Report> {
  const startedAt = new Date();
  await refuseEarly(options);
  if (options.receipt !== undefined) {
    const rehearsal = await readRehearsal(options.receipt, options);
    return shown((await applyRehearsed(rehearsal, options, startedAt)).report, options);
  }
  for (let rehearsals = 1; ; rehearsals++) {
    const rehearsal = await rehearseAndRemember(options);
    const { report, outdated } = await applyRehearsed(rehearsal, options, startedAt);
    if (outdated.length === 0 || rehearsals === REHEARSALS) return shown(report, options);
    const message = `the target changed while it was rehearsed on (${outdated.join(', ')}): rehearsing again`;
    options.emit?.({ type: 'notice', message });
  }
}

function tooLong(expectedMs: number): string {
  return `the target would be closed for about ${formatDuration(expectedMs)}, going by the rehearsal, and --max-stall allows less`;
}

type Sections = Omit<Report, 'version' | 'run' | 'cleanup'> & {
  readonly run: RunId;
  readonly before: TargetState;
  readonly identity: Identity;
};

async function rehearseWithin(scope: Scope, stop: Stop, options: RehearseOptions): Promise<Sections> {
  const { emit = ignore, keep = false } = options;
  const schema = await startSchemaReader(scope, options);
  const prepared = await untouched(stop, () => prepare(scope, stop, options));
  const { context, choice, stateBefore, logins, input, down, questions } = prepared;
  const { signal: _, ...ending } = context;
  const withoutClone = scope.depth;
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
  await inPhase(emit, 'before', () =>
    untouched(stop, async () => {
      await watch.before(() => {
        emit({ type: 'idle' });
        return warmUp();
      });
      await checks.before();
      await further.before();
    }),
  );

  const guard = new Guard(guardOptions(context, clone, options));
  const wire = await watchCommand(scope, wireOptions(context, clone, logins, guard, options));
  const rewritten = rewriteCommand(input, logins, wire.routes);
  const { result, newcomers, ...ran } = await inPhase(emit, 'command', () =>
    stop.pausedDuring(() => runWatched(toRun(rewritten, stop, options), contactOptions(context, clone))),
  );

  await wire.end();
  // The command may have done harm: whatever happens from here on, the target is looked at.
  if (stop.lost) throw await explainLoss(stop.lost, { ...ending, before: stateBefore });
  const author = await authorship(wire.own, newcomers, sharesServer(context, clone));
  let stateAfter: Promise<TargetState> | undefined;
  const onRead = () => {
    // What runs once more on the clone may reach the target as well.
    if (further.asked || options.signal?.aborted) return;
    stateAfter = readTargetState(ending);
    // A failure is told where it is waited for.
    stateAfter.catch(() => {});
  };
  const observed = await inPhase(emit, 'after', () =>
    watch.after(wire.lockedRelations(), { interrupt: options.signal, onRead }),
  );
  const seen = await wire.statements(observed.names, observed.data, observed.made);
  const checked = await inPhase(emit, 'after', () => checks.after(options.signal));
  const followed = await further.run(result, observed.schema);
  if (stop.lost) throw await explainLoss(stop.lost, { ...ending, before: stateBefore });
  const made = await cloneSection(clone, choice, observed.sizeBytes, keep);
  // Nobody needs it any more, and dropping a large one takes a while. A server of its own ends with the run.
  if (!keep && clone.isolation === 'same-cluster') void scope.releaseDownTo(withoutClone);
  const contact = [...ran.contact, ...followed.contact];
  const compared = await compareTarget(ending, {
    before: stateBefore,
    after: stateAfter,
    reachedClone: wire.reached(),
    madeDatabases: [...seen.statements, ...followed.statements].some(({ tag }) =>
      OF_DATABASES.has(tag ?? ''),
    ),
    ownDatabases: clone.made.names,
    contact,
    authors: [author, ...followed.authors],
    cloneChanges: observed.schema?.changes ?? [],
    describeTarget: () => schema.describe(context.target.settings),
  });
  const weighed = await weighTarget(ending, { ...observed, ...seen });
  if (keep) await clone.keep();

  const command = commandSection(
    withoutSecrets(options.command, logins.logins),
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
  const target = targetSection(context.target, compared.changes, [...clone.touched, ...weighed.touched]);
  const { queries, checks: ownChecks } = checked;
  const sections = {
    target,
    command,
    statements: seen.statements,
    transactions: seen.transactions,
    schema: weighed.schema && schemaWithoutSecrets(weighed.schema),
    data: weighed.data,
    ...{ queries, checks: ownChecks, rerun: followed.rerun, down: followed.down },
    contact,
  };
  const limits = [made, seen, observed, ran, compared, weighed, questions, checked, followed];
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
      limits: limits.flatMap((part) => part.limits),
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

function withCleanup(report: Report, { done, failed }: Cleanup): Report {
  const { cleanup } = report;
  return { ...report, cleanup: { done: [...cleanup.done, ...done], failed: [...cleanup.failed, ...failed] } };
}

const OF_DATABASES = new Set(['CREATE DATABASE', 'DROP DATABASE']);

/** First of all: it loads while the server is looked at. */
function startSchemaReader(scope: Scope, { audit }: RehearseOptions): Promise<SchemaWatch> {
  return scope.own(
    'schema reader',
    () => openSchemaWatch(audit),
    async (schema) => schema?.close(),
  );
}

/** Sections that later parts of the tool fill. */
const NOT_YET = {
  apply: null,
  swap: null,
} satisfies Partial<Report>;
