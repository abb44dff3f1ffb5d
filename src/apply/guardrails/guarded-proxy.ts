import { forOwnSessions } from '../../clone/own-sessions.ts';
import type { CommandLogin } from '../../command/rewrite.ts';
import type { Target } from '../../database/target.ts';
import { messageOf, SafemigrateError } from '../../errors.ts';
import type { Emit } from '../../events.ts';
import { formatDuration } from '../../format.ts';
import type { DuringSection } from '../../model/report.ts';
import { ActivityReader } from '../../observe/activity-reader.ts';
import { type CommandWatch, type CommandWatchOptions, watchCommand } from '../../observe/command-watch.ts';
import type { RunId } from '../../ownership/run-id.ts';
import type { Audit } from '../../postgres/connection/audit.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSettings } from '../../postgres/protocol/startup-settings.ts';
import { endsWithin } from '../../postgres/session-helpers.ts';
import { shapeHash } from '../../postgres/sql/statement-hashes.ts';
import type { Gate, Observed, Observer, UnreadText } from '../../proxy/observed.ts';
import { ignore } from '../../rehearsal/plan.ts';
import { type Rehearsed, type RehearsedStatement, rehearsedOf } from '../../rehearsal/receipts/rehearsed.ts';
import { type OpenGuarded, openWay } from '../../rehearsal/run-on-clone.ts';
import type { Scope } from '../../scope.ts';
import type { Guardrails } from '../apply-settings.ts';
import { InvalidIndexes } from '../retry/invalid-indexes.ts';
import { Retries } from '../retry/statement-retries.ts';
import { ApplyGate } from './apply-gate.ts';
import { BlockingMonitor } from './blocking-monitor.ts';
import { listenForOrders } from './control.ts';
import { GuardrailEvents } from './guardrail-events.ts';
import { ManualControl } from './manual-control.ts';
import { RunComparison } from './run-comparison.ts';
import { readTargetNames, type TargetNames } from './target-names.ts';

/** How long to wait for the answers to our own queries. */
const ANSWER_WITHIN_MS = 1_000;

export interface GuardedParts {
  readonly target: Target;
  readonly run: RunId;
  /** The logins that the command has; the first is the target's own. */
  readonly logins: readonly CommandLogin[];
  readonly rehearsed: Rehearsed;
  /** Names in the command's database. */
  readonly names: TargetNames;
  readonly guardrails: Guardrails;
  /** The address that the command connects to. */
  readonly listen: string;
  /** Literals are left out of what is reported, and were in the rehearsal. */
  readonly redact: boolean;
  /** Says where the run listens for `pause`, `resume` and `abort`; null: nowhere. */
  readonly env: NodeJS.ProcessEnv | null;
  readonly emit: Emit;
  readonly audit?: Audit;
  /** Opens a session of ours on the target's server, if possible outside the target. */
  readonly connect: (purpose: string) => Promise<Session>;
  /** Takes every event of the proxy. */
  readonly observer: Observer;
  /** Called when a person pauses the run, or lets it continue. */
  readonly onPause?: (isPaused: boolean) => void;
  /** If the command runs on a clone: its way there, whose guard decides before the guardrails do. */
  readonly onClone?: CommandWatchOptions;
  /** Ends the command, as its time limit does. */
  readonly abort: (reason: SafemigrateError) => void;
}

/** The proxy between the command and the target. */
export interface GuardedWatch extends CommandWatch {
  /** Returns the actions of the guardrails; complete after end(). */
  happened(): DuringSection | null;
  /** Why the command was ended on a person's request; null if it was not. */
  abortReason(): string | null;
}

export async function startGuardedProxy(scope: Scope, parts: GuardedParts): Promise<GuardedWatch> {
  const { target, run, rehearsed, emit, audit = () => {}, connect, observer } = parts;
  const { guardrails, redact, onClone, names } = parts;
  const events = new GuardrailEvents(emit, redact);
  const activity = await scope.own(
    'watchdog',
    async () => new ActivityReader(() => connect('watchdog')),
    async (made) => made?.close(),
  );
  const indexes = new InvalidIndexes(() =>
    openSession(target.settings, { purpose: 'invalid index', run, audit }),
  );
  const manualControl = new ManualControl(events, {
    onEnd: () => parts.abort(abortedByRequest(run)),
    onPause: (isPaused) => parts.onPause?.(isPaused),
  });
  const blockingMonitor = new BlockingMonitor(guardrails, activity, events);
  const retries = new Retries(guardrails, events, indexes);
  const progress = new ProgressTracker(rehearsed, events);
  const settings = settingsOf(guardrails);
  const stopListening = await listen(scope, run, parts.env, manualControl, events);
  const gate = new ApplyGate({
    comparison: await RunComparison.with(rehearsed, { redacted: redact, target: names }),
    guardrails,
    events,
    manualControl,
    blockingMonitor,
    retries,
    indexes,
    activity,
  });
  const proxy = await watchCommand(scope, {
    ...(onClone ?? wayToTarget(parts)),
    guard: onClone ? withinBoundary(onClone.guard, gate) : gate,
    settings,
    observe: 'sampled',
    observer: (event) => {
      if (event.type === 'session') noteOwnTimeouts(event.parameters, settings, events);
      retries.observe(event);
      blockingMonitor.observe(event);
      manualControl.observe(event);
      progress.observe(event);
      observer(event);
    },
    emit,
  });
  return {
    ...proxy,
    disconnect: async () => {
      await proxy.disconnect();
      await endsWithin(blockingMonitor.settled(), ANSWER_WITHIN_MS);
    },
    end: async () => {
      await proxy.end();
      manualControl.end();
      await endsWithin(blockingMonitor.close(), ANSWER_WITHIN_MS);
      await activity.close();
      await blockingMonitor.close();
      await activity.close();
      await stopListening();
    },
    happened: () => events.section,
    abortReason: () => (manualControl.endedCommand ? abortedByRequest(run).message : null),
  };
}

function wayToTarget({ target, logins, listen, connect }: GuardedParts) {
  return {
    logins,
    listen,
    connect,
    clone: target.settings,
    cloneOid: target.database.oid,
    sharesRoles: true,
    otherDatabase: () => true,
    serverVersionNum: target.server.versionNum,
  };
}

const NOT_READ: UnreadText = { push: () => 'run', end: () => 'run' };

/** Asks the gate of rehearsals first: it refuses statements that may not run on a clone either. */
function withinBoundary(boundary: Gate, gate: ApplyGate): Gate {
  return {
    before: async (intent) => {
      const answer = await boundary.before(intent);
      return answer === 'run' ? gate.before(intent) : answer;
    },
    completed: (tag, parsed) => boundary.completed?.(tag, parsed),
    unread: (database) => boundary.unread?.(database) ?? NOT_READ,
    calls: (oid, database) => boundary.calls?.(oid, database) ?? 'run',
    begins: (options) => boundary.begins?.(options) ?? 'run',
    readsOnly: (database) => boundary.readsOnly?.(database) === true,
    mayWrite: (intent) => boundary.mayWrite?.(intent) === true,
    between: (signal) => gate.between(signal),
    waitsForLocks: (intent) => gate.waitsForLocks(intent),
    after: (intent, attempt) => gate.after(intent, attempt),
  };
}

/** Listens for pause, resume and abort. Without a socket the run continues, and cannot be controlled. */
async function listen(
  scope: Scope,
  run: RunId,
  env: NodeJS.ProcessEnv | null,
  manualControl: ManualControl,
  events: GuardrailEvents,
): Promise<() => Promise<void>> {
  if (env === null) return async () => {};
  try {
    const control = await scope.own(
      'control socket',
      () => listenForOrders(run, env, manualControl.handle),
      async (opened) => opened?.close(),
    );
    events.say(`control this run with: safemigrate pause|resume|abort ${run}`);
    return () => control.close();
  } catch (error) {
    events.say(`this run cannot be paused, resumed or aborted from elsewhere: ${messageOf(error)}`);
    return async () => {};
  }
}

function noteOwnTimeouts(
  parameters: readonly (readonly [name: string, value: string])[],
  settings: Readonly<Record<string, string>>,
  events: GuardrailEvents,
): void {
  const { given } = withSettings(parameters, settings);
  const values = new Map(parameters);
  for (const setting of Object.keys(settings).filter((name) => !given.has(name)))
    events.ownTimeout({ setting, value: values.get(setting) ?? null, where: 'start-up' });
}

function abortedByRequest(run: RunId): SafemigrateError {
  return new SafemigrateError('INTERRUPTED', `The run was aborted by \`safemigrate abort ${run}\`.`, {
    hint: 'What the command has committed stays; the report lists it.',
  });
}

/** The settings that the command's sessions begin with. */
function settingsOf({ lockTimeoutMs, statementTimeoutMs, idleTimeoutMs }: Guardrails) {
  const settings: Record<string, string> = {};
  if (lockTimeoutMs > 0) settings.lock_timeout = String(lockTimeoutMs);
  if (statementTimeoutMs > 0) settings.statement_timeout = String(statementTimeoutMs);
  if (idleTimeoutMs > 0) settings.idle_in_transaction_session_timeout = String(idleTimeoutMs);
  return settings;
}

/** Statements that were faster in the rehearsal are not announced. */
const ANNOUNCED_FROM_MS = 1_000;

/** Announces each statement that was slow in the rehearsal, with its position and its duration there. */
export class ProgressTracker {
  readonly #events: GuardrailEvents;
  readonly #slow = new Map<string, RehearsedStatement[]>();
  readonly #of: number;
  /** Statement ids, so that a retried statement is announced once. */
  readonly #seen = new Set<number>();

  constructor({ statements }: Rehearsed, events: GuardrailEvents) {
    this.#events = events;
    this.#of = statements.length;
    for (const statement of statements) {
      if (statement.durationMs < ANNOUNCED_FROM_MS) continue;
      const alike = this.#slow.get(statement.shape);
      if (alike) alike.push(statement);
      else this.#slow.set(statement.shape, [statement]);
    }
  }

  observe(event: Observed): void {
    if (event.type !== 'begin' || this.#slow.size === 0) return;
    const { id, sql } = event.statement;
    if (this.#seen.has(id)) return;
    this.#seen.add(id);
    const rehearsed = this.#slow.get(shapeHash(sql))?.shift();
    if (!rehearsed) return;
    const { index, durationMs } = rehearsed;
    this.#events.say(
      `statement ${index} of ${this.#of}, ${formatDuration(durationMs)} in the rehearsal: ${this.#events.named(sql)}`,
    );
  }
}

/**
 * Makes what opens a command's way to a clone with the guardrails that its apply will have: its timeouts, retries of statements, and the
 * checks of whom it blocks. The command is run once, whatever --retries says.
 */
export function guardedOnClone(guardrails: Guardrails): OpenGuarded {
  return async (setup, { logins }, { statements, observer }) => {
    const { plan, context, clone, life } = setup;
    if (clone.isolation !== 'own-cluster')
      throw new Error(
        "guardrails are not tried on a clone in the target's server: they may end other sessions",
      );
    const { way, options } = await openWay(setup, logins);
    const { target, run, audit } = context;
    const { name } = target.database;
    const settings = forOwnSessions(clone, target);
    const wire = await startGuardedProxy(life.scope, {
      target: {
        ...target,
        settings,
        database: { ...target.database, oid: clone.oid },
      },
      run,
      audit,
      guardrails,
      observer,
      redact: plan.redact,
      listen: plan.proxy.listen,
      env: null,
      // The report says what they did, and nothing of it happens on the target.
      emit: ignore,
      logins: logins.logins,
      rehearsed: rehearsedOf(statements, [name, clone.database]),
      names: await namesOf(settings, { run, audit }),
      connect: clone.server.open,
      onClone: options,
      abort: (reason) => life.stop.now(reason),
    });
    return { ...way, wire, happened: () => wire.happened() };
  };
}

async function namesOf(settings: ConnectionSettings, { run, audit }: { run: RunId; audit: Audit }) {
  const session = await openSession(settings, { purpose: 'names', run, audit });
  try {
    return await readTargetNames(session);
  } finally {
    await session.close();
  }
}
