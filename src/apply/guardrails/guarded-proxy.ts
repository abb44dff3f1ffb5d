import type { CommandLogin } from '../../command/rewrite.ts';
import type { Target } from '../../database/target.ts';
import { messageOf, SafemigrateError } from '../../errors.ts';
import type { Emit } from '../../events.ts';
import type { DuringSection } from '../../model/report.ts';
import { type CommandWatch, watchCommand } from '../../observe/command-watch.ts';
import type { RunId } from '../../ownership/run-id.ts';
import type { Audit } from '../../postgres/connection/audit.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { endsWithin } from '../../postgres/ends-within.ts';
import { withSettings } from '../../postgres/protocol/startup-settings.ts';
import type { Observer } from '../../proxy/observed.ts';
import type { Rehearsed } from '../../rehearsal/receipts/rehearsed.ts';
import type { Scope } from '../../scope.ts';
import { InvalidIndexes } from '../retry/invalid-indexes.ts';
import { Retries } from '../retry/statement-retries.ts';
import { ActivityReader } from './activity-reader.ts';
import { ApplyGate } from './apply-gate.ts';
import { BlockingMonitor } from './blocking-monitor.ts';
import { listenForOrders } from './control.ts';
import { GuardrailEvents } from './guardrail-events.ts';
import { type GuardrailOptions, settingsOf, withDefaults } from './guardrail-options.ts';
import { ManualControl } from './manual-control.ts';
import { ProgressTracker } from './progress-tracker.ts';

/** For what was asked of the server on the side. */
const ANSWER_WITHIN_MS = 1_000;

export type { GuardrailOptions } from './guardrail-options.ts';

export interface GuardedParts {
  readonly target: Target;
  readonly run: RunId;
  /** What the command knows of the target; the first is the target's own login. */
  readonly logins: readonly CommandLogin[];
  readonly rehearsed: Rehearsed;
  readonly options: GuardrailOptions;
  readonly emit: Emit;
  readonly audit?: Audit;
  /** Opens a session of ours on the target's server, outside the target where the role is let in there. */
  readonly connect: (purpose: string) => Promise<Session>;
  /** Told everything that the proxy sees. */
  readonly observer: Observer;
  /** Ends the command, as its time limit does; the reason is told in the report. */
  readonly abort: (reason: SafemigrateError) => void;
}

/** The proxy between the command and the target. */
export interface GuardedWatch extends CommandWatch {
  /** What was done to the command on its way; null where nothing watches. To be asked after end(). */
  happened(): DuringSection | null;
}

export async function startGuardedProxy(scope: Scope, parts: GuardedParts): Promise<GuardedWatch> {
  const { target, run, logins, rehearsed, emit, audit = () => {}, connect, observer } = parts;
  const options = withDefaults(parts.options);
  const happenings = new GuardrailEvents(emit, options.redact);
  const looker = await scope.own(
    'watchdog',
    async () => new ActivityReader(() => connect('watchdog')),
    async (made) => made?.close(),
  );
  const indexes = new InvalidIndexes(() =>
    openSession(target.settings, { purpose: 'invalid index', run, audit }),
  );
  const steering = new ManualControl(happenings, () => parts.abort(aborted(run)));
  const watchdog = new BlockingMonitor(options, looker, happenings);
  const retries = new Retries(options, happenings, indexes);
  const pace = new ProgressTracker(rehearsed, happenings);
  const settings = settingsOf(options);
  const stopListening = await listen(scope, run, options.env, steering, happenings);
  const wire = await watchCommand(scope, {
    logins,
    clone: target.settings,
    sharesRoles: true,
    cloneOid: target.database.oid,
    guard: new ApplyGate({
      database: target.database.name,
      ...{ rehearsed, options, happenings, steering, watchdog, retries, indexes, looker },
    }),
    settings,
    observe: 'sampled',
    // What they wrote is to be read from them first.
    ...(parts.options.listen === undefined ? {} : { listen: parts.options.listen }),
    otherDatabase: () => true,
    connect,
    observer: (event) => {
      if (event.type === 'session') tellOwnTimeouts(event.parameters, settings, happenings);
      retries.observe(event);
      watchdog.observe(event);
      steering.observe(event);
      pace.observe(event);
      observer(event);
    },
    emit,
  });
  return {
    ...wire,
    disconnect: async () => {
      await wire.disconnect();
      await endsWithin(watchdog.settled(), ANSWER_WITHIN_MS);
    },
    end: async () => {
      await wire.end();
      steering.end();
      await endsWithin(watchdog.close(), ANSWER_WITHIN_MS);
      await looker.close();
      await watchdog.close();
      await looker.close();
      await stopListening();
    },
    happened: () => happenings.section,
  };
}

/** Without a socket the run goes on, and only takes no orders. */
async function listen(
  scope: Scope,
  run: RunId,
  env: NodeJS.ProcessEnv,
  steering: ManualControl,
  happenings: GuardrailEvents,
): Promise<() => Promise<void>> {
  try {
    const control = await scope.own(
      'control socket',
      () => listenForOrders(run, env, steering.obey),
      async (opened) => opened?.close(),
    );
    happenings.say(`to pause, resume or abort it: safemigrate pause|resume|abort ${run}`);
    return () => control.close();
  } catch (error) {
    happenings.say(`safemigrate pause, resume and abort cannot reach this run: ${messageOf(error)}`);
    return async () => {};
  }
}

function tellOwnTimeouts(
  parameters: readonly (readonly [name: string, value: string])[],
  settings: Readonly<Record<string, string>>,
  happenings: GuardrailEvents,
): void {
  const { given } = withSettings(parameters, settings);
  const values = new Map(parameters);
  for (const setting of Object.keys(settings).filter((name) => !given.has(name)))
    happenings.ownTimeout({ setting, value: values.get(setting) ?? null, where: 'start-up' });
}

function aborted(run: RunId): SafemigrateError {
  return new SafemigrateError('INTERRUPTED', `The run was aborted by \`safemigrate abort ${run}\`.`, {
    hint: 'What the command had committed stays; the report says what that is.',
  });
}
