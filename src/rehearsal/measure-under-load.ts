import { setTimeout as delay } from 'node:timers/promises';
import { inClone } from '../clone/own-sessions.ts';
import { SafemigrateError } from '../errors.ts';
import {
  type CommandDeadlock,
  describeLoad,
  type LoadTimes,
  type ServerSessions,
} from '../load/load-section.ts';
import { TrafficLog } from '../load/traffic-log.ts';
import { WaitMonitor } from '../load/wait-monitor.ts';
import { warmTables } from '../load/warm-tables.ts';
import type { LoadedRunSection } from '../model/load-model.ts';
import type { SchemaSection } from '../model/report.ts';
import { allRelations, namesOf } from '../observe/relation-names.ts';
import type { Observed, Observer } from '../proxy/observed.ts';
import { cloneAgain, hasSameSchema } from './clone-again.ts';
import { type LoadSource, startTraffic } from './load-traffic.ts';
import type { LoadPlan } from './plan.ts';
import type { RehearsalContext } from './prepare.ts';
import { type CloneRun, type CloneSetup, type OpenWire, runThroughWire } from './run-on-clone.ts';

const DEADLOCK_DETECTED = '40P01';
/** How long the load goes on after the command at most, and at least. */
const RECOVERY_MS = 15_000;
const AFTERWARDS_MS = 2000;
const LOOK_EVERY_MS = 50;

/** What one run of the command under load goes by. */
export interface LoadedRunOptions {
  readonly load: LoadPlan;
  readonly source: LoadSource;
  /** The schema that the run without load left; null if it is not known. */
  readonly quiet: SchemaSection | null;
  /** Names of what the command locked without load. */
  readonly tables: readonly string[];
  /** Gets each run that was begun: what it did to the target counts, even if the rest fails. */
  readonly runs: CloneRun[];
}

/**
 * Makes a fresh clone, puts the load on it, runs the command, and measures what the load felt.
 * @param open opens the command's way to the clone
 * @param runOne runs what is measured: the command, or another form of it
 * @throws SafemigrateError, Error if there was no load, or most of it failed
 */
export async function measureUnderLoad<Way extends OpenWire>(
  setup: CloneSetup,
  prepared: RehearsalContext,
  { load, source, quiet, tables, runs }: LoadedRunOptions,
  open: (loaded: CloneSetup, observer: Observer) => Promise<Way>,
  runOne = (loaded: CloneSetup, way: Way): Promise<CloneRun> => runThroughWire(loaded, prepared.command, way),
): Promise<{ section: LoadedRunSection; opened: Way }> {
  const { scope, stop } = setup.life;
  const loaded = await cloneAgain(setup, prepared);
  const treeBefore = await inClone(loaded, allRelations);
  await inClone(loaded, (session) => warmTables(session, tables));
  const log = new TrafficLog();
  const monitor = await scope.own(
    'load monitor',
    async () => new WaitMonitor(() => loaded.clone.server.open('load monitor'), log.startedMs),
    async (started) => started?.stop(),
  );
  const commandDeadlocks: CommandDeadlock[] = [];
  const opened = await open(loaded, observerFor(monitor, commandDeadlocks));
  const traffic = await scope.own(
    'load',
    () => startTraffic(loaded, prepared.command, { load, source, log }),
    async (started) => started?.stop(),
  );
  await delay(load.warmupMs, undefined, { signal: stop.signal });
  const failure = await traffic.failure();
  if (failure !== null) throw new SafemigrateError('CONFIGURATION', `The load ended by itself: ${failure}`);
  const { transactions, failures } = log.phase('before', log.startedMs, performance.now());
  if (transactions > 0 && failures * 2 > transactions)
    throw new Error(`most transactions of the load failed before the command ran: ${log.firstError ?? ''}`);
  log.commandStarted();
  const startedMs = performance.now();
  const run = await runOne(loaded, opened);
  runs.push(run);
  log.commandEnded();
  const endedMs = performance.now();
  const recoveredMs = await untilRecovered(monitor, endedMs, stop.signal);
  await traffic.stop();
  const ofLoad = 'run' in traffic ? traffic.run() : null;
  if (ofLoad) runs.push(ofLoad);
  await monitor.stop();
  if (!monitor.hasLooked) throw new Error('the sessions that waited could not be read');
  const tree = new Map([...treeBefore, ...(await inClone(loaded, allRelations))]);
  const times: LoadTimes = { startedMs, endedMs, recoveredMs };
  const { statements, transactions: ofCommand } = await run.wire.statements({ tree });
  const section = describeLoad({
    clients: traffic.clients,
    exitCode: run.result.exitCode,
    times,
    monitor,
    log,
    commandDeadlocks,
    schemaEqual: run.result.exitCode === 0 ? await hasSameSchema(loaded, quiet) : null,
    names: namesOf(tree),
    statements,
    transactions: ofCommand,
    sessions: sessionsOf(prepared),
  });
  return { section, opened };
}

function observerFor(monitor: WaitMonitor, deadlocks: CommandDeadlock[]): Observer {
  return (event: Observed) => {
    monitor.observe(event);
    if (event.type !== 'end' || event.outcome.error?.get('C') !== DEADLOCK_DETECTED) return;
    deadlocks.push({ statement: event.statement, detail: event.outcome.error.get('D') ?? '' });
  };
}

/** Production's by the profile, or the target's. */
function sessionsOf({ profile, stateBefore }: RehearsalContext): ServerSessions | null {
  if (profile) return profile.profile.traffic?.sessions ?? null;
  return 'unmeasured' in stateBefore.traffic ? null : stateBefore.traffic.sessions;
}

/** Waits until no session waits behind the command any more. @returns the time, by performance.now(); null if one still did. */
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
