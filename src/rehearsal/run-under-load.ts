import { setTimeout as delay } from 'node:timers/promises';
import { inClone } from '../clone/own-sessions.ts';
import { lockWaitsBetween, readLockWaits } from '../database/read-lock-waits.ts';
import { SafemigrateError } from '../errors.ts';
import { inPhase } from '../events.ts';
import { describeLoad, type LoadedRun } from '../load/load-section.ts';
import { TrafficLog } from '../load/traffic-log.ts';
import { WaitMonitor } from '../load/wait-monitor.ts';
import { warmTables } from '../load/warm-tables.ts';
import { measured } from '../measured.ts';
import type { LoadedRunSection, LoadSection } from '../model/load-model.ts';
import type { Caveat, SchemaSection, StatementSection } from '../model/report.ts';
import { allRelations, namesOf } from '../observe/relation-names.ts';
import type { Observed, Observer } from '../proxy/observed.ts';
import { cloneAgain, hasSameSchema } from './clone-again.ts';
import type { ExtraResults, ExtraRun, FirstRun } from './extra-run.ts';
import {
  caveatsOf,
  findSource,
  type LoadSource,
  originOf,
  rateCaveats,
  rateOf,
  startTraffic,
} from './load-traffic.ts';
import type { LoadPlan } from './plan.ts';
import type { RehearsalContext } from './prepare.ts';
import { type CloneRun, type CloneSetup, type OpenWire, openWire, runThroughWire } from './run-on-clone.ts';

// The command under load, in the order of its steps:
//
//   findSource         the target's transactions are watched for a while, unless a profile, scripts or a command make the load
//   measureUnderLoad   on a fresh clone: the load begins; after the warm-up the command runs, without guardrails, as a migration tool would
//                      run it on production; the load goes on until no session waits; the schema is compared with that of the quiet run
//   measureGuarded     if an apply is to follow: the same on another clone, with its guardrails

/** The command under load (`--load`), on clones of its own. */
export const LOAD: ExtraRun = {
  path: 'load',
  isAsked: ({ load }) => load !== null,
  run: async (first) => {
    // Those of --load-command are among them.
    const runs: CloneRun[] = [];
    const caveats: Caveat[] = [];
    const read = () => measured(caveats, 'load', () => runAll(first, runs));
    const loaded = await inPhase(first.setup.context.emit, 'load', read, (done) => done === null);
    return { ...loaded, runs, caveats: [...caveats, ...(loaded?.caveats ?? [])] };
  },
};

async function runAll(
  first: FirstRun,
  runs: CloneRun[],
): Promise<Pick<ExtraResults, 'sections' | 'played' | 'caveats'>> {
  const { setup, prepared, after } = first;
  const { load } = setup.plan;
  if (load === null) throw new Error('no load was asked for');
  const source = await findSource(setup, prepared, load);
  const tables = lockedBy(after.seen.statements);
  const options: LoadedRunOptions = { load, source, quiet: after.observed.schema, tables, runs };
  const { section } = await measureUnderLoad(setup, prepared, options, (loaded, observer) =>
    openWire(loaded, prepared.command, { observer }),
  );
  const guarded = await measureGuarded(first, options);
  const rate = rateOf(source, load, section.before);
  const sectionOfLoad: LoadSection = {
    source: source.kind,
    origin: originOf(source, prepared.profile?.profile ?? null),
    rate,
    ...section,
    guarded: guarded.section,
  };
  return {
    sections: { load: sectionOfLoad },
    played: { source, tables },
    caveats: [...caveatsOf(source), ...rateCaveats(rate, section.before), ...guarded.caveats],
  };
}

async function measureGuarded(
  { setup, prepared, after, openGuarded }: FirstRun,
  options: LoadedRunOptions,
): Promise<{ section: LoadSection['guarded']; caveats: Caveat[] }> {
  if (!openGuarded) return { section: null, caveats: [] };
  const caveats: Caveat[] = [];
  const { statements } = after.seen;
  const section = await measured(caveats, 'load.guarded', async () => {
    const guarded = await measureUnderLoad(setup, prepared, options, (loaded, observer) =>
      openGuarded(loaded, prepared.command, { statements, observer }),
    );
    return { ...guarded.section, guardrails: guarded.opened.happened() };
  });
  return { section, caveats };
}

/** Names of the relations that statements locked. */
function lockedBy(statements: readonly StatementSection[]): string[] {
  return [...new Set(statements.flatMap(({ locks }) => (locks ?? []).map(({ relation }) => relation)))];
}

const DEADLOCK_DETECTED = '40P01';
/** How long the load goes on after the command at most, and at least. */
const RECOVERY_MS = 15_000;
const AFTERWARDS_MS = 2000;
const LOOK_EVERY_MS = 50;

/** Inputs of one run of the command under load. */
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
  const commandDeadlocks: LoadedRun['commandDeadlocks'] = [];
  const opened = await open(loaded, observerFor(monitor, commandDeadlocks));
  const waitsBefore = await inClone(loaded, readLockWaits);
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
  const { statements, transactions: ofCommand } = await run.wire.statements({ tree });
  const section = describeLoad({
    clients: traffic.clients,
    exitCode: run.result.exitCode,
    startedMs,
    endedMs,
    recoveredMs,
    monitor,
    log,
    commandDeadlocks,
    schemaEqual: run.result.exitCode === 0 ? await hasSameSchema(loaded, quiet) : null,
    names: namesOf(tree),
    lockWaits: lockWaitsBetween(waitsBefore, await inClone(loaded, readLockWaits)),
    statements,
    transactions: ofCommand,
    sessions: sessionsOf(prepared),
  });
  return { section, opened };
}

function observerFor(monitor: WaitMonitor, deadlocks: LoadedRun['commandDeadlocks']): Observer {
  return (event: Observed) => {
    monitor.observe(event);
    if (event.type !== 'end' || event.outcome.error?.get('C') !== DEADLOCK_DETECTED) return;
    deadlocks.push({ statement: event.statement, detail: event.outcome.error.get('D') ?? '' });
  };
}

/** Production's by the profile, or the target's. */
function sessionsOf({ profile, stateBefore }: RehearsalContext): LoadedRun['sessions'] {
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
