import { EventEmitter } from 'node:events';
import { inClone, openInClone } from '../clone/own-sessions.ts';
import { formatCount, formatDuration, plural } from '../format.ts';
import { playShapes, type Traffic } from '../load/play-shapes.ts';
import { type RecordedTraffic, recordShapes, trafficOfProfile } from '../load/record-shapes.ts';
import { findPgbench, runPgbench } from '../load/run-pgbench.ts';
import type { EndedTransaction, TrafficLog } from '../load/traffic-log.ts';
import type { RecordedTransaction } from '../model/hazard-facts.ts';
import type { LoadPhase, LoadSection } from '../model/load-model.ts';
import type { Profile } from '../model/profile-model.ts';
import type { Caveat } from '../model/report.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { withSession } from '../postgres/session-helpers.ts';
import type { Observed, Observer } from '../proxy/observed.ts';
import type { LoadPlan } from './plan.ts';
import type { RehearsalContext } from './prepare.ts';
import {
  type CloneRun,
  type CloneSetup,
  type LocatedCommand,
  openWire,
  runThroughWire,
} from './run-on-clone.ts';

const LEAST_CLIENTS = 4;
const MOST_CLIENTS = 64;

/** Source of the load. */
export type LoadSource =
  | { readonly kind: 'shapes'; readonly recorded: RecordedTraffic }
  | { readonly kind: 'pgbench'; readonly program: string; readonly scripts: readonly string[] }
  | { readonly kind: 'command'; readonly shell: string };

/** Finds what is to be played. @throws SafemigrateError, Error if there is nothing to play */
export async function findSource(
  setup: CloneSetup,
  { profile }: RehearsalContext,
  load: LoadPlan,
): Promise<LoadSource> {
  const { command: shell, scripts } = load;
  if (shell !== null) return { kind: 'command', shell };
  if (scripts.length > 0) return { kind: 'pgbench', program: await findPgbench(), scripts };
  const shapes = profile?.profile.shapes;
  const recorded = shapes ? trafficOfProfile(shapes) : await recordTraffic(setup, load);
  return { kind: 'shapes', recorded };
}

/** Starts the load on a clone. */
export function startTraffic(
  setup: CloneSetup,
  command: LocatedCommand,
  { load, source, log }: { load: LoadPlan; source: LoadSource; log: TrafficLog },
): Promise<Traffic | Awaited<ReturnType<typeof startLoadCommand>>> {
  switch (source.kind) {
    case 'command':
      return startLoadCommand(setup, command, source.shell, log);
    case 'shapes':
      return playRecorded(setup, load, source.recorded, log);
    case 'pgbench':
      return playScripts(setup, load, source, log);
  }
}

const EXISTING = 'SELECT name FROM unnest($1::text[]) AS name WHERE to_regclass(name) IS NOT NULL';

/** Leaves out locks of tables that the clone does not have. @throws Error if it has none of them */
async function playRecorded(
  setup: CloneSetup,
  { clients, rate }: LoadPlan,
  recorded: RecordedTraffic,
  log: TrafficLog,
): Promise<Traffic> {
  const rows = await inClone(setup, (session) =>
    session.query<{ name: string }>(EXISTING, [[...recorded.names.values()]]),
  );
  const existing = new Set(rows.map(({ name }) => name));
  const names = new Map([...recorded.names].filter(([, name]) => existing.has(name)));
  const shapes = recorded.shapes.filter(({ steps }) => steps.some(({ relation }) => names.has(relation)));
  if (shapes.length === 0)
    throw new Error('the clone has none of the tables that the recorded transactions lock');
  const count = clients ?? Math.min(Math.max(recorded.clients, LEAST_CLIENTS), MOST_CLIENTS);
  return playShapes(await openClients(setup, count), { shapes, names }, rate ?? 1, log);
}

function playScripts(
  { life, plan, clone }: CloneSetup,
  { clients, rate }: LoadPlan,
  { program, scripts }: Extract<LoadSource, { kind: 'pgbench' }>,
  log: TrafficLog,
): Promise<Traffic> {
  const { folder } = plan.command;
  const played = { scripts, clients: clients ?? LEAST_CLIENTS, perSecond: rate, folder };
  return runPgbench(life.scope, program, played, clone.connect, clone.server.control, log);
}

async function openClients({ life, clone, context }: CloneSetup, count: number): Promise<Session[]> {
  // They are the application's, not ours: no list of what we sent has them, and no signal cancels their queries.
  const place = { clone, context: { run: context.run, target: context.target } };
  const unlimited = { statementTimeoutMs: 0, lockTimeoutMs: 0 };
  const open = () => openInClone(place, { purpose: 'load', readOnly: false, ...unlimited });
  return life.scope.own(
    'sessions of the load',
    () => Promise.all(Array.from({ length: count }, open)),
    async (sessions) => {
      await Promise.all((sessions ?? []).map((session) => session.close()));
    },
  );
}

/** Watches the target's transactions. @throws Error if no session was at work. */
async function recordTraffic({ context }: CloneSetup, { windowMs }: LoadPlan): Promise<RecordedTraffic> {
  const { target, run, audit, signal } = context;
  const recorded = await withSession(
    openSession(target.settings, { run, audit, signal, purpose: 'record traffic', readOnly: true }),
    (session) => recordShapes(session, windowMs, signal),
  );
  if (recorded.shapes.length > 0) return recorded;
  throw new Error(
    `no session was seen at work on the target in ${formatDuration(windowMs)}, so there is no traffic to play: ` +
      'rehearse at a time of traffic, look longer (SAFEMIGRATE_LOAD_WINDOW), or give a profile of production (--profile) or scripts (--load FILE.sql)',
  );
}

/** Describes the load in a sentence. */
export function originOf(source: LoadSource, profile: Profile | null): string {
  if (source.kind === 'command') return source.shell;
  if (source.kind === 'pgbench') return `pgbench with ${source.scripts.join(', ')}`;
  const { shapes, perSecond, windowMs, readings } = source.recorded;
  const where = profile?.shapes ? `by the profile of ${profile.database.name}` : 'on the target';
  return (
    `${plural(shapes.length, 'kind')} of transactions seen ${where}, ${formatCount(Math.round(perSecond))} a second ` +
    `(${formatDuration(windowMs)}, ${plural(readings, 'reading')} of its locks)`
  );
}

/** Transactions a second as they were wanted, and as they were played before the command. */
export function rateOf(
  source: LoadSource,
  { rate }: Pick<LoadPlan, 'rate'>,
  { durationMs, transactions }: Pick<LoadPhase, 'durationMs' | 'transactions'>,
): LoadSection['rate'] {
  const counted = source.kind === 'shapes' ? source.recorded.perSecond * (rate ?? 1) : null;
  return {
    wanted: counted ?? (source.kind === 'pgbench' ? rate : null),
    played: durationMs > 0 ? (transactions * 1000) / durationMs : null,
  };
}

/** A load that plays this much more or less than it should is said to. */
const OFF_BY = 0.2;

/** Says if the load was another one than it should have been, by more than chance makes of so few transactions. */
export function rateCaveats(
  { wanted, played }: LoadSection['rate'],
  { durationMs }: Pick<LoadPhase, 'durationMs'>,
): Caveat[] {
  if (wanted === null || played === null) return [];
  const chance = (2 * Math.sqrt((wanted * durationMs) / 1000) * 1000) / durationMs;
  if (Math.abs(played - wanted) <= OFF_BY * wanted + chance) return [];
  const [few, many] = [played, wanted].map((each) => formatCount(Math.round(each)));
  const reason =
    `the load had ${few} transactions a second before the command, and should have had ${many}: ` +
    (played < wanted
      ? 'more sessions would wait on the target than here'
      : 'fewer sessions would wait on the target than here');
  return [{ path: 'load.rate', kind: 'estimate', reason }];
}

/** The application's transactions as they were recorded, on the target or for the profile; undefined if they were not. */
export function recordedTransactions(
  source: LoadSource | null,
  profile: Profile | null,
): RecordedTransaction[] | undefined {
  const played = source?.kind === 'shapes' ? source.recorded : undefined;
  const recorded = played ?? (profile?.shapes ? trafficOfProfile(profile.shapes) : undefined);
  if (!recorded) return undefined;
  const nameOf = (oid: number) => recorded.names.get(oid) ?? String(oid);
  return recorded.shapes.map(({ steps, unordered, holdMs }) => ({
    relations: steps.map(({ relation }) => nameOf(relation)),
    durationMs: holdMs,
    unordered: unordered.map(([one, other]) => [nameOf(one), nameOf(other)] as const),
  }));
}

/** Says what such a load cannot show. */
export function caveatsOf(source: LoadSource): Caveat[] {
  if (source.kind !== 'shapes') return [];
  const { shapes, names, uncounted } = source.recorded;
  const pairs = new Set(
    shapes.flatMap(({ unordered }) =>
      unordered.map((pair) => pair.map((oid) => names.get(oid) ?? String(oid)).join(' and ')),
    ),
  );
  const common: Caveat = {
    path: 'load',
    kind: 'estimate',
    reason:
      'the load takes the locks that the target’s transactions were seen to take, for as long; it sends none of their statements, ' +
      'and changes rows that are drawn by chance',
  };
  const others = [
    ...(uncounted === null
      ? []
      : [
          `transactions that are too short to be seen are played as far as the counters of their tables tell: ${uncounted}`,
        ]),
    ...(pairs.size === 0
      ? []
      : [`the order in which transactions lock ${[...pairs].slice(0, 5).join(', ')} was not seen`]),
  ];
  return [common, ...others.map((reason): Caveat => ({ path: 'load', kind: 'estimate', reason }))];
}

/**
 * Starts a shell command on the clone, connected to it through a proxy of its own, which sees its transactions.
 * `run` returns its run, after stop().
 */
async function startLoadCommand(
  setup: CloneSetup,
  { input, logins }: LocatedCommand,
  shell: string,
  log: TrafficLog,
): Promise<Traffic & { run(): CloneRun | null }> {
  const command: LocatedCommand = { input: { ...input, argv: ['sh', '-c', shell] }, logins };
  const interrupts = new EventEmitter<{ signal: ['SIGTERM'] }>();
  const stopping = new AbortController();
  const settings = { interrupts, interrupted: stopping.signal, timeoutMs: 0 };
  const wire = await openWire(setup, command, { observer: transactionsInto(log), settings });
  let ended: CloneRun | null = null;
  let failure: string | null = null;
  const running = runThroughWire(setup, command, wire).then(
    (run) => {
      ended = run;
      const { exitCode, signal } = run.result;
      failure = `${shell} ended with ${signal ?? `exit code ${exitCode}`}`;
    },
    (error: unknown) => {
      failure = String(error);
    },
  );
  return {
    clients: 1,
    failure: async () => failure,
    async stop() {
      stopping.abort();
      // A second one would kill it; SIGKILL follows by itself if it stays.
      if (failure === null) interrupts.emit('signal', 'SIGTERM');
      await running;
    },
    run: () => ended,
  };
}

/** Makes transactions of what the proxy sees: from the first statement of one to its end. */
export function transactionsInto(log: Pick<TrafficLog, 'add'>): Observer {
  const open = new Map<number, { startedMs: number; error: EndedTransaction['error'] }>();
  return (event: Observed) => {
    if (event.type === 'begin') {
      const { transaction } = event.statement;
      if (!open.has(transaction)) open.set(transaction, { startedMs: performance.now(), error: null });
    } else if (event.type === 'end' && event.outcome.error) {
      const { error } = event.outcome;
      const known = open.get(event.statement.transaction);
      if (known)
        known.error ??= {
          sqlstate: error.get('C') ?? '',
          message: error.get('M') ?? '',
          detail: error.get('D') ?? '',
        };
    } else if (event.type === 'transaction-end') {
      const known = open.get(event.transaction);
      open.delete(event.transaction);
      if (known) log.add({ ...known, endedMs: performance.now() });
    }
  };
}
