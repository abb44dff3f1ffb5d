import { memoryWords } from '../format.ts';
import { isBookkeeping } from '../model/migration-tables.ts';
import type {
  DataSection,
  Hazard,
  Objection,
  SchemaSection,
  TargetConnection,
  TargetSection,
} from '../model/report.ts';
import { attemptWords, decidingAttempts, TRUST_ADVICE, UNTRUSTED_WORDS } from './attempt-words.ts';
import { budgetReasons, type Spent } from './budgets.ts';
import { emptyHistoryWords } from './empty-history.ts';
import { extraRunReasons, type RequestedExtraRuns } from './extra-runs.ts';
import { hazardObjections } from './policy.ts';
import type { Policy } from './policy-settings.ts';

/** The findings that the verdict is based on. */
export interface Findings extends Spent, RequestedExtraRuns {
  readonly target: Pick<TargetSection, 'changes' | 'unchanged' | 'origin'>;
  readonly targetConnections: readonly TargetConnection[];
  readonly schema: Pick<SchemaSection, 'changes'> | null;
  /** Hazards; those that the policy allows are marked. */
  readonly hazards: readonly Hazard[];
  readonly data: Pick<DataSection, 'walBytes' | 'written'> | null;
  readonly loadRequested: boolean;
  /** Neither schema nor rows nor the tool's own table changed, as far as that is known. */
  readonly changedNothing: boolean;
  /** The run was interrupted by a signal before the command ended. */
  readonly interrupted: boolean;
}

/**
 * Decides whether a rehearsal passed. It did if there is no reason against it; the most serious reason comes first.
 * @param today the date, as `2026-11-21`.
 */
export function judge(findings: Findings, policy: Policy, today: string) {
  const isLimited = !findings.interrupted && findings.command.reachedClone;
  const found = [
    ...objections('TARGET_CHANGED', targetReasons(findings)),
    ...objections('CONNECTED_TO_TARGET', connectionReasons(findings)),
    ...objections('STATEMENT_REFUSED', refusalReasons(findings)),
    ...commandObjections(findings),
    ...objections('NOT_CONNECTED', reachReasons(findings)),
    ...objections('CHECK_FAILED', extraRunReasons(findings)),
    ...objections('LOAD_FAILED', loadReasons(findings)),
    ...hazardObjections(findings.hazards, policy, today),
    ...objections('LIMIT_EXCEEDED', isLimited ? budgetReasons(findings, policy) : []),
    ...objections('NOTHING_APPLIED', withoutEffect(findings, policy)),
    ...objections('UNEXPECTED_CHANGE', unexpectedReasons(findings, policy)),
    ...objections('NOT_COMPARED', unseenReasons(findings)),
    ...objections('NOT_PROVED', unprovedReasons(findings, policy)),
  ];
  return {
    pass: found.length === 0,
    reasons: found.map(({ sentence }) => sentence),
    objections: found.map(({ sentence: _, ...objection }): Objection => objection),
  };
}

function objections(code: string, reasons: readonly string[], statement: number | null = null) {
  return reasons.map((sentence) => ({ code, message: sentence, hazard: null, statement, sentence }));
}

/** The statement that failed last is the one that the command gave up at. */
function commandObjections(findings: Findings) {
  const failed = findings.statements.findLast(({ error }) => error !== null);
  const reasons = commandReasons(findings);
  if (findings.interrupted) return objections('INTERRUPTED', reasons);
  return objections('COMMAND_FAILED', reasons, failed?.index ?? null).map((each) =>
    failed?.error == null ? each : { ...each, message: `${each.message}: ${failed.error.message}` },
  );
}

/** A run under load that was asked for and could not be made says nothing in the migration's favour. */
function loadReasons({ load, loadRequested, caveats, interrupted }: Findings): string[] {
  if (!loadRequested || interrupted) return [];
  if (load === null) {
    const why = caveats.find(({ path, kind }) => path === 'load' && kind === 'unmeasured');
    return [`the command was not run under load: ${why?.reason ?? 'the rehearsal did not get that far'}`];
  }
  // An apply will run as the run with its guardrails did.
  const { exitCode, schemaEqual } = (load.guarded ?? load).command;
  const guarded = load.guarded ? ', with the guardrails of an apply' : '';
  if (exitCode !== 0) return [`the command failed under load${guarded}`];
  return schemaEqual === false
    ? [`under load the command left another schema than without load${guarded}`]
    : [];
}

const NAMED_CHANGES = 5;

/** A success without any effect, if --expect changes asks for one. */
function withoutEffect(findings: Findings, { expect }: Policy): string[] {
  const { command, changedNothing, interrupted } = findings;
  if (expect !== 'changes' || !changedNothing || interrupted || command.exitCode !== 0) return [];
  return [
    "the command ended with exit code 0 and changed nothing, neither the schema nor rows nor its tool's own table, and --expect changes asks for a change",
  ];
}

/** Lists what the command changes although --expect no-change says that it changes nothing; a migration tool's own tables do not count. */
function unexpectedReasons({ schema, data, interrupted }: Findings, { expect }: Policy): string[] {
  if (expect !== 'no-change' || interrupted) return [];
  const changed = [
    ...(schema?.changes ?? []).map(({ verb, kind, object }) => ({
      object,
      what: `${verb} ${kind} ${object}`,
    })),
    ...(data?.written ?? []).map(({ relation }) => ({ object: relation, what: `rows of ${relation}` })),
  ].filter(({ object }) => !isBookkeeping(object));
  if (changed.length === 0) return [];
  const named = changed.slice(0, NAMED_CHANGES).map(({ what }) => what);
  const more = changed.length > NAMED_CHANGES ? ` and ${changed.length - NAMED_CHANGES} more` : '';
  return [
    `the command would change the database, and --expect no-change allows no change: ${named.join(', ')}${more}`,
  ];
}

function targetReasons({ target }: Findings): string[] {
  const by = (author: 'command' | 'unknown') =>
    target.changes.flatMap(({ what, madeBy }) => (madeBy === author ? [what] : [])).join('; ');
  const [own, unknown] = [by('command'), by('unknown')];
  return [
    ...(own === '' ? [] : [`the command changed the target itself: ${own}`]),
    ...(unknown === ''
      ? []
      : [`the target changed while the command ran, and who changed it is unknown: ${unknown}`]),
  ];
}

function connectionReasons({ targetConnections }: Findings): string[] {
  const [first] = targetConnections;
  if (!first) return [];
  const { process: owner, user, ended } = first;
  return [
    `the command connected to the target itself, past safemigrate (${owner.command}, as ${user ?? 'an unknown user'}); ` +
      `the session ${ended ? 'was terminated' : 'could not be terminated (permission denied)'} and the command was stopped; pass the connection as ` +
      '{safemigrate:url} in an argument or a variable that the command reads, or its file as {safemigrate:config FILE}',
  ];
}

function refusalReasons({ command }: Findings): string[] {
  return command.refused.map(({ what, why }) => `${what} was not run: ${why}`);
}

function commandReasons({ command, statements, interrupted, target, targetConnections }: Findings): string[] {
  // In this case safemigrate stopped the command.
  if (targetConnections.length > 0) return [];
  if (interrupted) return ['the rehearsal was interrupted'];
  if (command.timedOut) return ['the command ran longer than --timeout allows and was terminated'];
  if (command.signal !== null)
    return [`the command was terminated by ${command.signal}${memoryWords(command)}`];
  if (command.exitCode === 0) return [];
  const attempts = decidingAttempts(command, statements);
  const history = command.emptyHistory ?? [];
  const failed = `the command failed with exit code ${command.exitCode}${memoryWords(command)}`;
  if (history.length > 0) return [`${failed}: ${emptyHistoryWords(history, target)}`];
  return [attempts.length === 0 ? failed : `${failed}: ${attemptWords(attempts)}`];
}

function reachReasons({ command, statements, interrupted, targetConnections }: Findings): string[] {
  if (command.reachedClone || interrupted || targetConnections.length > 0) return [];
  const attempts = decidingAttempts(command, statements);
  if (attempts.length > 0) {
    const why = `: ${attemptWords(attempts)}`;
    return [
      `the command never connected to the clone, so nothing was rehearsed${command.exitCode === 0 ? why : ''}`,
    ];
  }
  if (command.leftForTrust)
    return [
      `the command never connected to the clone, so nothing was rehearsed: ${UNTRUSTED_WORDS}; ${TRUST_ADVICE}`,
    ];
  if (command.byAddress && command.leftForTls)
    return [
      'the command never connected to the clone, so nothing was rehearsed: it demands TLS, which the target does not offer',
    ];
  if (command.leftForTls)
    return [
      'the command never connected to the clone, so nothing was rehearsed: it demands TLS, and the proxy on this machine speaks ' +
        'without it; let the command take sslmode, sslnegotiation and channel_binding from its URL or the PG* variables, which are rewritten',
    ];
  if (command.byAddress)
    return [
      "the command never connected to the clone, so nothing was rehearsed: the clone was at the target's own address, and " +
        `${command.exitCode === 0 ? 'the command needed no database, or looked for it elsewhere' : 'the output of the command says why it failed'}; ` +
        '--permit HOST:PORT lets it reach what else it needs',
    ];
  if (command.exitCode !== 0 && command.isolation.kind !== 'watched')
    return [
      'the command failed and never connected to the clone, so nothing was rehearsed; it was kept from every other place. Its own ' +
        'output says whether it ended before it connected, or takes its connection from a file: pass that as {safemigrate:url} in an ' +
        'argument or a variable, or the file as {safemigrate:config FILE}; --permit HOST:PORT lets it reach what else it needs',
    ];
  if (command.exitCode !== 0)
    return [
      'the command failed and never connected to the clone, so nothing was rehearsed: its own output says whether it ended before ' +
        'it connected, or connected to somewhere that safemigrate does not rewrite; if it reads its connection from a file, name ' +
        'that as {safemigrate:config FILE}',
    ];
  return [
    'the command never connected to the clone, so nothing was rehearsed: it takes its connection from somewhere ' +
      'that safemigrate does not rewrite; pass it as {safemigrate:url} in an argument or a variable, or its file as ' +
      '{safemigrate:config FILE}',
  ];
}

/** A rehearsal without a schema comparison has not passed. */
function unseenReasons({ schema, interrupted, command }: Findings): string[] {
  if (schema !== null || interrupted || !command.reachedClone) return [];
  return ['the schema before and after could not be compared; the caveats of the report say why'];
}

/** The report says beside the verdict why it is not proved. */
function unprovedReasons({ target }: Findings, { requireProof }: Policy): string[] {
  return requireProof && target.unchanged === null
    ? ['could not verify that the target is unchanged, and --require-proof asks for the proof']
    : [];
}
