import { exposureOf } from '../clone/clone-section.ts';
import type { Clone, CloneContext } from '../clone/method.ts';
import { forOwnSessions } from '../clone/own-sessions.ts';
import { type CommandSandbox, describeIsolation } from '../command/sandbox/command-sandbox.ts';
import type { StatementSection } from '../model/report.ts';
import { type DataLoss, measureDataLoss } from '../observe/data-loss.ts';
import type { SeenCommand } from '../proof/attribute-changes.ts';
import { compareTarget, type TargetComparison } from '../proof/compare-target.ts';
import { type Contacts, joinContacts } from '../proof/new-sessions.ts';
import { isOwnHost } from '../proof/session-origin.ts';
import type { TargetState, WatchOptions } from '../proof/target-state.ts';
import type { ExtraResults, FirstRun } from './extra-run.ts';
import type { RehearsalPlan } from './plan.ts';
import type { CloneRun, CloneSetup } from './run-on-clone.ts';
import { isDumpWithoutRows, unfilledTables } from './without-rows.ts';

/** Statements that run code that no statement shows, or make some. One that failed has no tag, and one that was not read may be any. */
const OF_CODE = /^(DO|CALL|(CREATE|ALTER) (FUNCTION|PROCEDURE|ROUTINE|AGGREGATE|EXTENSION|LANGUAGE))$/;

function mayRunCode({ tag, note }: StatementSection): boolean {
  return tag === null || note !== undefined || OF_CODE.test(tag);
}

/** Tells whether the clone is in the target's server, so that what the command does to the one it does to the other. */
function sharesServer({ rehearsal }: CloneContext, { isolation }: Clone): boolean {
  return isolation === 'same-cluster' && !rehearsal;
}

/** Reads the target without the signal that ends the run: the command may have done harm, whatever happened since. */
export function uninterrupted({ target, control, run, audit }: CloneContext): WatchOptions {
  return { target, control, run, audit };
}

/** In a sandbox without exceptions, on a server of its own that has no way out either. */
function isConfined(
  { clone: { allowExternalAccess } }: RehearsalPlan,
  { isolation }: Clone,
  sandbox: CommandSandbox,
): boolean {
  const { kind, allowed } = describeIsolation(sandbox);
  return kind === 'sandboxed' && allowed.length === 0 && isolation === 'own-cluster' && !allowExternalAccess;
}

/** The target is on this machine, and its Unix sockets were not hidden. */
function hasOpenSockets({ target }: CloneSetup['context'], sandbox: CommandSandbox): boolean {
  return (
    sandbox.kind !== 'sandboxed' &&
    sandbox.covered.length === 0 &&
    target.settings.hosts.some(({ host }) => isOwnHost(host))
  );
}

/** Gathers the facts seen of the target's sessions, as far as the command can have to do with it. */
function metOutside(
  runs: readonly CloneRun[],
  context: CloneSetup['context'],
  sandbox: CommandSandbox,
): Omit<Contacts, 'caveats' | 'dialled'> &
  Pick<SeenCommand, 'mayHaveDialled' | 'mayReplicateUnseen' | 'sandboxed'> {
  const { dialled, caveats: _, ...contacts } = joinContacts(runs);
  if (sandbox.kind === 'sandboxed') {
    // What it was allowed may be a service that works for it.
    const sandboxed = describeIsolation(sandbox).allowed.length === 0;
    const relayed = sandboxed ? [] : contacts.relayed;
    return { ...contacts, relayed, stray: 0, mayHaveDialled: false, mayReplicateUnseen: false, sandboxed };
  }
  // A socket that is hidden is also found through /proc.
  const isHere = context.target.settings.hosts.some(({ host }) => isOwnHost(host));
  return {
    ...contacts,
    mayHaveDialled: dialled || hasOpenSockets(context, sandbox),
    mayReplicateUnseen: isHere && context.target.role.mayReplicate,
    sandboxed: false,
  };
}

/** The work of runs within the target's server, or on what it shares with the clone's. */
type SharedWork = Omit<
  SeenCommand,
  keyof ReturnType<typeof metOutside> | 'leftRunning' | 'reachedClone' | 'confined'
>;

/** The work of runs on a server of the clone's own, where nothing that they do reaches the target. */
const NOTHING_SHARED: SharedWork = {
  madeDatabases: false,
  ranHiddenCode: false,
  ownDatabases: [],
  ranUnseen: [],
  notKnown: null,
  mayActUnseen: false,
  transactions: [],
  cloneChanges: [],
  afterClone: [],
};

/** Gathers what is known of a command by its runs on a clone. */
export function seenCommand(
  { plan, context, clone, sandbox }: CloneSetup,
  runs: readonly CloneRun[],
  work: SharedWork = NOTHING_SHARED,
): SeenCommand {
  return {
    ...metOutside(runs, context, sandbox),
    leftRunning: runs.flatMap(({ result }) => result.leftRunning),
    reachedClone: runs[0]?.wire.reached() ?? false,
    confined: isConfined(plan, clone, sandbox),
    ...work,
  };
}

/** The role may do more than is compared, or may call a function or become a role that does; so may another one of the command's. */
function mayActUnseen({ target: { role } }: CloneSetup['context'], runs: readonly CloneRun[]): boolean {
  const hasPowers = exposureOf(role) !== null || runs.some(({ gate }) => gate.judge?.borrowsRights);
  return hasPowers || runs.some(({ wire }) => wire.sessions().some(({ user }) => user !== role.name));
}

/** syntax_error: the server could not read the text either. */
const SYNTAX_ERROR = '42601';

/** Returns the first thing that the runs did and that is not known to stay within the clone. */
function firstNotKnown(runs: readonly CloneRun[], statements: readonly StatementSection[]): string | null {
  for (const {
    gate: { judge },
  } of runs) {
    if (judge?.notKnown !== undefined) return judge.notKnown;
    for (const text of judge?.unreadTexts ?? [])
      if (!statements.some(({ sql, error }) => sql === text && error?.sqlstate === SYNTAX_ERROR))
        return 'a text that could not be read';
  }
  return null;
}

const OF_DATABASES = new Set(['CREATE DATABASE', 'DROP DATABASE']);

/** Reads the target once more, and says who changed it if it is not as it was. */
export function compareWithTarget(
  { setup, prepared, before, ran, after }: FirstRun,
  further: ExtraResults,
): Promise<TargetComparison> {
  const { plan, context, clone, schema } = setup;
  const runs = [ran, ...further.runs];
  const statements = [...after.seen.statements, ...further.statements];
  const withinServer = () => ({
    ranUnseen: [...new Set(runs.flatMap(({ gate }) => gate.ranUnseen))],
    transactions: runs.map(({ wire }) => wire.transactions),
    ranHiddenCode: plan.proxy.observe === 'off' || after.observed.hasUserCode || statements.some(mayRunCode),
    afterClone: clone.preparedIn ?? [],
  });
  const isShared = sharesServer(context, clone);
  const what = firstNotKnown(runs, statements);
  const command = seenCommand(setup, runs, {
    ...NOTHING_SHARED,
    madeDatabases: statements.some(({ tag }) => OF_DATABASES.has(tag ?? '')),
    ownDatabases: clone.made.names,
    cloneChanges: after.observed.schema?.changes ?? [],
    notKnown: what === null ? null : { what, reaches: isShared ? "the target's server" : 'this machine' },
    mayActUnseen: mayActUnseen(context, runs),
    ...(isShared ? withinServer() : {}),
  });
  const states = { before: prepared.stateBefore, start: before.start };
  return compareTarget(uninterrupted(context), states, command, () =>
    schema.describe(context.target.settings),
  );
}

/** Looks up on the target what of its data the command would lose. */
export function measureLoss(
  { setup: { plan, context, clone }, prepared, after }: FirstRun,
  { shared }: TargetState,
): Promise<DataLoss> {
  const { catalogue } = after.observed;
  const isEmptyDump = isDumpWithoutRows(plan, catalogue.relations);
  const unfilled = unfilledTables(catalogue, isEmptyDump, prepared.profile?.profile ?? null);
  const own = { clone: forOwnSessions(clone, context.target), since: shared.nextXid };
  const options = { ...uninterrupted(context), ...own };
  return measureDataLoss(options, { ...after.observed, ...after.seen, unfilled });
}
