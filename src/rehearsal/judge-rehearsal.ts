import { steadyDate } from '../clock.ts';
import { describeClone } from '../clone/clone-section.ts';
import { sharingOf } from '../clone/cluster/estimate-cluster.ts';
import type { Clone } from '../clone/method.ts';
import { commandWithoutSecrets } from '../command/command-secrets.ts';
import { describeCommand } from '../command/command-section.ts';
import { describeIsolation } from '../command/sandbox/command-sandbox.ts';
import { mergeAttempts } from '../command/sandbox/outside-attempts.ts';
import { describeTarget } from '../database/target.ts';
import { emptyHistory } from '../hazards/empty-history.ts';
import { reachJudgement } from '../hazards/judgement.ts';
import type { CommandSection, Report } from '../model/report.ts';
import type { DataLoss } from '../observe/data-loss.ts';
import { redactReport } from '../observe/redact-report.ts';
import type { RunId } from '../ownership/run-id.ts';
import { toolVersion } from '../package.ts';
import { schemaWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import type { TargetComparison } from '../proof/compare-target.ts';
import type { TargetState } from '../proof/target-state.ts';
import type { Cleanup } from '../scope.ts';
import type { AfterCommand, ExtraResults, FirstRun } from './extra-run.ts';
import { recordedTransactions } from './load-traffic.ts';
import { locateStatements } from './places/locate-statements.ts';
import type { RehearsalPlan } from './plan.ts';
import type { RehearsalContext } from './prepare.ts';
import type { ProvenProfile } from './profile/profile-file.ts';
import { withSaferForms } from './propose/find-forms.ts';
import { identityOf, type ReceiptIdentity } from './receipts/receipt.ts';
import type { CloneRun } from './run-on-clone.ts';
import { isDumpWithoutRows, withUnknownRows } from './without-rows.ts';

/** The report but for what is known at its very end, and what an apply or a swap needs to know of the rehearsal. */
export type RehearsalSections = Omit<Report, 'version' | 'run' | 'cleanup' | 'apply' | 'swap'> & {
  readonly run: RunId;
  readonly before: TargetState;
  readonly identity: ReceiptIdentity;
};

/** Makes the report's sections of what was found, and judges them. */
export async function judgeRehearsal(
  { setup: { plan, context, clone, schema }, prepared, ran, after }: FirstRun,
  further: ExtraResults,
  {
    target: compared,
    loss,
    uniqueBytes,
  }: {
    target: TargetComparison;
    loss: DataLoss;
    uniqueBytes: Awaited<ReturnType<Clone['uniqueBytes']>>;
  },
): Promise<RehearsalSections> {
  const { observed, seen, checked } = after;
  const { choice, questions, command } = prepared;
  const isEmptyDump = isDumpWithoutRows(plan, observed.catalogue.relations);
  const made = describeClone(
    clone,
    choice,
    observed.sizeBytes,
    uniqueBytes,
    plan.clone.keep,
    context.target.role,
  );
  const runs: [CloneRun, ...CloneRun[]] = [ran, ...further.runs];
  const target = describeTarget(context.target, compared, {
    touched: [...clone.touched, ...(further.touched ?? []), ...loss.touched],
    origin: plan.target.from === null ? 'database' : 'dump',
  });
  const sections = {
    target,
    command: commandSection(plan, prepared, runs, after),
    statements: seen.statements,
    transactions: seen.transactions,
    schema: loss.schema && schemaWithoutSecrets(loss.schema),
    data: loss.data && (isEmptyDump ? { ...loss.data, withoutRows: true as const } : loss.data),
    queries: checked.queries,
    checks: checked.checks,
    rerun: null,
    down: null,
    atOnce: null,
    load: null,
    ...further.sections,
    targetConnections: runs.flatMap(({ targetConnections }) => targetConnections),
  };
  const caveats = [made, seen, observed, ran, compared, loss, questions, checked, further];
  const { missing, ...judgement } = reachJudgement(
    {
      ...sections,
      parsed: seen.parsed,
      sessionsWithLockTimeout: seen.sessionsWithLockTimeout,
      statementTimeouts: seen.statementTimeouts,
      sessionsOfPsql: seen.sessionsOfPsql,
      catalogue: isEmptyDump
        ? { ...observed.catalogue, relations: withUnknownRows(observed.catalogue.relations) }
        : observed.catalogue,
      // No session works on a server that was made for this run.
      traffic:
        plan.target.from === null || prepared.profile !== null
          ? compared.traffic
          : { unmeasured: 'a dump has no traffic' },
      causes: further.causes,
      recorded: recordedTransactions(further.played?.source ?? null, prepared.profile?.profile ?? null),
      rewrittenBytes: loss.rewrittenBytes,
      diskSpace: prepared.diskSpace,
      unsharedBytes: sharingOf(clone.strategy).isSnapshot ? made.clone.uniqueBytes : null,
      targetWasEmptied: choice.assessment.endsSessions,
      caveats: caveats.flatMap((part) => part.caveats),
      loadRequested: plan.load !== null,
      interrupted: plan.signal.aborted,
    },
    plan.policy,
    new Date().toISOString().slice(0, 10),
    prepared.profile?.profile ?? null,
  );
  const identity = {
    ...identityOf(context.target, command.logins, plan.command),
    ...(plan.receipt.file !== null && loss.schema ? { objects: await schema.hashes() } : {}),
  };
  const remembered = { run: context.run, before: prepared.stateBefore, identity };
  const profile = prepared.profile && profileSection(prepared.profile, missing);
  return {
    ...remembered,
    clone: made.clone,
    ...sections,
    ...judgement,
    hazards: withSaferForms(judgement.hazards, further.saferForms ?? [], context.target.server.version),
    statements: await locateStatements(judgement.statements, judgement.hazards, seen.sent, plan.command),
    ...(profile && { profile }),
  };
}

function profileSection({ profile, ageMs }: ProvenProfile, missing: readonly string[]): Report['profile'] {
  return {
    database: profile.database.name,
    serverVersion: profile.server.version,
    takenAt: profile.takenAt,
    ageMs,
    signed: profile.seal.kind === 'hmac-sha256',
    relations: profile.relations.length,
    missing: [...missing],
  };
}

function commandSection(
  plan: RehearsalPlan,
  { command, sandbox }: RehearsalContext,
  runs: readonly [CloneRun, ...CloneRun[]],
  { seen, observed }: AfterCommand,
): CommandSection {
  const [{ wire, gate, rewritten, result }] = runs;
  const { refused, allowed, redirected } = gate;
  const words = commandWithoutSecrets(plan.command.argv, command.logins.logins);
  const reachedClone = wire.reached();
  const left = { leftForTls: wire.leftForTls(), leftForTrust: wire.leftForTrust() };
  const untriedPasswords = [...new Set(runs.flatMap((run) => run.wire.untriedPasswords()))];
  const reach = { reachedClone, untriedPasswords, ...left, refused, allowed, redirected };
  const attempts = mergeAttempts(runs.flatMap((run) => (run.sandbox ? [run.sandbox.attempts.list()] : [])));
  const hosts = commandWithoutSecrets(
    attempts.map(({ host }) => host),
    command.logins.logins,
  );
  const isolation = {
    ...describeIsolation(sandbox),
    attempts: attempts.map((each, index) => ({ ...each, host: hosts[index] ?? '' })),
  };
  const leftRunning = runs.flatMap((run) => run.result.leftRunning);
  const history = emptyHistory(observed.catalogue.relations, seen.statements, result);
  const section = describeCommand(
    words,
    rewritten,
    result,
    { ...reach, isolation, leftRunning },
    seen.statements,
  );
  return history.length === 0 ? section : { ...section, emptyHistory: history };
}

/** Puts the report together, at the end of the run, with what an apply or a swap needs to know of the rehearsal before it. */
export function assembleReport(
  { run, before, identity, ...sections }: RehearsalSections,
  cleanup: Cleanup,
  startedAt: Date,
) {
  const report: Report = {
    version: 1,
    run: {
      id: run,
      startedAt: startedAt.toISOString(),
      finishedAt: steadyDate().toISOString(),
      mode: 'rehearse',
      tool: { name: 'safemigrate', version: toolVersion() },
    },
    ...sections,
    // Sections of the other modes.
    apply: null,
    swap: null,
    cleanup,
  };
  return { report, before, identity };
}

/** Returns the report as its reader gets it: comparisons need the values, so redaction is the last step. */
export async function redactIfAsked(report: Report, { redact }: RehearsalPlan): Promise<Report> {
  return redact ? redactReport(report) : report;
}
