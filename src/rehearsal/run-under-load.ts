import { setTimeout as delay } from 'node:timers/promises';
import { forOwnSessions } from '../clone/own-sessions.ts';
import { messageOf, SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import { type CommandDeadlock, describeLoad, type LoadTimes } from '../load/load-section.ts';
import { playShapes, type Traffic } from '../load/play-shapes.ts';
import type { RecordedTraffic } from '../load/record-shapes.ts';
import { findPgbench, runPgbench } from '../load/run-pgbench.ts';
import { TrafficLog } from '../load/traffic-log.ts';
import { WaitMonitor } from '../load/wait-monitor.ts';
import type { LoadSection } from '../model/load-model.ts';
import type { Caveat, SchemaSection } from '../model/report.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import { displayName } from '../postgres/sql/quote.ts';
import type { Observed } from '../proxy/observed.ts';
import { cloneAgain, hasSameSchema } from './clone-again.ts';
import { type CommandTraffic, startLoadCommand } from './load-command.ts';
import { caveatsOf, originOf, recordTraffic, trafficOf } from './load-traffic.ts';
import type { LoadPlan } from './plan.ts';
import type { RehearsalContext } from './prepare.ts';
import { type CloneRun, type CloneSetup, openWire, runThroughWire } from './run-on-clone.ts';

// The command under load, in the order of its steps:
//
//   recordTraffic     the target's transactions are watched for a while (unless scripts are given)
//   cloneAgain        a second clone, by the same method, for a run of its own: the first one is as the quiet run left it
//   startTraffic      the load begins; after the warm-up
//   runThroughWire    the command runs as production would see it, without guardrails
//   untilRecovered    until nobody waits behind it any more
//   compare           whether it left the same schema as the quiet run

/** What the run under load found; `section` is null if it could not be made, and `caveats` say why. */
export interface LoadOutcome {
  readonly section: LoadSection | null;
  /** The command's, and that of --load-command. */
  readonly runs: readonly CloneRun[];
  readonly caveats: readonly Caveat[];
}

const NOT_ASKED: LoadOutcome = { section: null, runs: [], caveats: [] };
const DEADLOCK_DETECTED = '40P01';
/** How long the load goes on after the command at most, and at least. */
const RECOVERY_MS = 15_000;
const AFTERWARDS_MS = 2000;
const LOOK_EVERY_MS = 50;
const LEAST_CLIENTS = 4;
const MOST_CLIENTS = 64;

/**
 * Runs the command once more, on a second clone and under load (`--load`). What cannot be done does not end the run: the caveats say why.
 * @param quiet the schema that the run without load left; null if it is not known.
 */
export async function runUnderLoad(
  setup: CloneSetup,
  prepared: RehearsalContext,
  quiet: SchemaSection | null,
): Promise<LoadOutcome> {
  const { load } = setup.plan;
  if (!load) return NOT_ASKED;
  return inPhase(
    setup.context.emit,
    'load',
    async () => {
      // What they did to the target counts, even if the rest fails.
      const runs: CloneRun[] = [];
      try {
        return await runOnce(setup, prepared, { load, quiet, runs });
      } catch (error) {
        if (setup.life.stop.signal.aborted) throw error;
        return {
          section: null,
          runs,
          caveats: [{ path: 'load', kind: 'unmeasured', reason: messageOf(error) }],
        };
      }
    },
    ({ section }) => section === null,
  );
}

async function runOnce(
  setup: CloneSetup,
  prepared: RehearsalContext,
  { load, quiet, runs }: { load: LoadPlan; quiet: SchemaSection | null; runs: CloneRun[] },
): Promise<LoadOutcome> {
  const { scope, stop } = setup.life;
  const pgbench = load.scripts.length > 0 ? await findPgbench() : null;
  const shapes = prepared.profile?.profile.shapes;
  const isPlayed = pgbench === null && load.command === null;
  const seen = isPlayed && !shapes ? await recordTraffic(setup, load) : null;
  const loaded = await cloneAgain(setup, prepared);
  const { clone, context } = loaded;
  const names = await inLoadedClone(loaded, readNames);
  const recorded =
    isPlayed && shapes ? await inLoadedClone(loaded, (session) => trafficOf(session, shapes)) : seen;
  const log = new TrafficLog();
  const monitor = await scope.own(
    'load monitor',
    async () => new WaitMonitor(await clone.server.open('load monitor'), log.startedMs),
    async (opened) => opened?.stop(),
  );
  const commandDeadlocks: CommandDeadlock[] = [];
  const observer = (event: Observed) => {
    monitor.observe(event);
    if (event.type === 'end' && event.outcome.error?.get('C') === DEADLOCK_DETECTED)
      commandDeadlocks.push({
        statement: event.statement,
        detail: event.outcome.error.get('D') ?? '',
      });
  };
  const wire = await openWire(loaded, prepared.command, observer);
  const traffic = await scope.own(
    'load',
    () => startTraffic(loaded, prepared, { load, recorded, pgbench }, log),
    async (started: Traffic | undefined) => started?.stop(),
  );
  await delay(load.warmupMs, undefined, { signal: stop.signal });
  const failure = await traffic.failure();
  if (failure !== null) throw new SafemigrateError('CONFIGURATION', `The load ended by itself: ${failure}`);
  const { transactions, failures } = log.phase('before', log.startedMs, performance.now());
  if (transactions > 0 && failures * 2 > transactions)
    throw new Error(`most transactions of the load failed before the command ran: ${log.firstError ?? ''}`);
  log.commandStarted();
  const startedMs = performance.now();
  const run = await runThroughWire(loaded, prepared.command, wire);
  runs.push(run);
  log.commandEnded();
  const endedMs = performance.now();
  const recoveredMs = await untilRecovered(monitor, endedMs, stop.signal);
  await traffic.stop();
  const ofLoad = 'run' in traffic ? traffic.run() : null;
  if (ofLoad) runs.push(ofLoad);
  await monitor.stop();
  const schemaEqual = await hasSameSchema(loaded, quiet);
  const times: LoadTimes = { startedMs, endedMs, recoveredMs };
  const section = describeLoad({
    source: recorded ? 'shapes' : load.command === null ? 'pgbench' : 'command',
    origin: recorded
      ? originOf(recorded, prepared.profile?.profile ?? null)
      : (load.command ?? `pgbench with ${load.scripts.join(', ')}`),
    clients: traffic.clients,
    exitCode: run.result.exitCode,
    ...{ schemaEqual, times, monitor, log, commandDeadlocks },
    names: new Map([...names, ...(await inLoadedClone({ clone, context }, readNames))]),
  });
  return { section, runs, caveats: recorded ? caveatsOf(recorded) : [] };
}

/** Where the load comes from: what was recorded, pgbench, or a command of the user's. */
interface LoadSource {
  readonly load: LoadPlan;
  readonly recorded: RecordedTraffic | null;
  /** The path of the program. */
  readonly pgbench: string | null;
}

async function startTraffic(
  setup: CloneSetup,
  { command }: RehearsalContext,
  { load, recorded, pgbench }: LoadSource,
  log: TrafficLog,
): Promise<Traffic | CommandTraffic> {
  const { life, plan, clone } = setup;
  if (load.command !== null) return startLoadCommand(setup, command, load.command, log);
  if (recorded)
    return playShapes(await openClients(setup, clientsOf(load, recorded)), recorded, load.rate ?? 1, log);
  const scripts = {
    scripts: load.scripts,
    clients: load.clients ?? LEAST_CLIENTS,
    perSecond: load.rate,
    folder: plan.command.folder,
  };
  return runPgbench(life.scope, pgbench ?? '', scripts, clone.connect, clone.server.control, log);
}

function clientsOf({ clients }: LoadPlan, recorded: RecordedTraffic): number {
  return clients ?? Math.min(Math.max(recorded.clients, LEAST_CLIENTS), MOST_CLIENTS);
}

async function openClients({ life, clone, context }: CloneSetup, count: number): Promise<Session[]> {
  const { run, target } = context;
  const open = () =>
    openSession(forOwnSessions(clone, target), {
      ...{ run, purpose: 'load', statementTimeoutMs: 0, lockTimeoutMs: 0 },
    });
  return life.scope.own(
    'sessions of the load',
    () => Promise.all(Array.from({ length: count }, open)),
    async (sessions) => {
      await Promise.all((sessions ?? []).map((session) => session.close()));
    },
  );
}

/** Waits until nobody waits behind the command any more. @returns the time, by performance.now(); null if somebody still did. */
async function untilRecovered(
  monitor: WaitMonitor,
  endedMs: number,
  signal: AbortSignal,
): Promise<number | null> {
  let recoveredMs: number | null = null;
  for (;;) {
    const nowMs = performance.now();
    if (monitor.waitingNow > 0) recoveredMs = null;
    else recoveredMs ??= nowMs;
    const quietMs = recoveredMs === null ? 0 : nowMs - recoveredMs;
    if (quietMs >= AFTERWARDS_MS || nowMs - endedMs >= RECOVERY_MS) return recoveredMs;
    await delay(LOOK_EVERY_MS, undefined, { signal });
  }
}

const NAMES = `
SELECT c.oid::int8 AS oid, n.nspname AS schema, c.relname AS name
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'p', 'm', 'i', 'I', 'S')`;

async function readNames(session: Session): Promise<[number, string][]> {
  const rows = await session.query<{ oid: string; schema: string; name: string }>(NAMES);
  return rows.map(({ oid, schema, name }) => [Number(oid), displayName(schema, name)]);
}

function inLoadedClone<T>(
  { clone, context }: Pick<CloneSetup, 'clone' | 'context'>,
  read: (session: Session) => Promise<T>,
): Promise<T> {
  const { run, audit, signal, target } = context;
  const options = { run, audit, signal, purpose: 'clone', readOnly: true };
  return withSession(openSession(forOwnSessions(clone, target), options), read);
}
