import type { TrafficReading } from '../database/traffic.ts';
import type { LoadedRunSection } from '../model/load-model.ts';
import type { LockWaits } from '../model/lock-waits.ts';
import type { StatementSection, TransactionSection } from '../model/report.ts';
import type { Statement } from '../proxy/observed.ts';
import type { TrafficLog } from './traffic-log.ts';
import type { WaitMonitor } from './wait-monitor.ts';

export interface LoadedRun {
  readonly clients: number;
  readonly exitCode: number | null;
  readonly schemaEqual: boolean | null;
  /** By performance.now(). */
  readonly startedMs: number;
  readonly endedMs: number;
  readonly recoveredMs: number | null;
  readonly monitor: WaitMonitor;
  readonly log: TrafficLog;
  /** Deadlocks that ended statements of the command. */
  readonly commandDeadlocks: { readonly statement: Statement; readonly detail: string }[];
  /** Names of relations by OID. */
  readonly names: ReadonlyMap<number, string>;
  readonly statements: StatementSection[];
  readonly transactions: TransactionSection[];
  /** null before version 19. */
  readonly lockWaits: LockWaits | null;
  /** Sessions of the target; null if they could not be counted. */
  readonly sessions: TrafficReading['sessions'] | null;
}

/** Makes the report's section of what was measured under load. */
export function describeLoad(run: LoadedRun): LoadedRunSection {
  const { clients, exitCode, schemaEqual, monitor, log, names, statements, transactions } = run;
  const { startedMs, endedMs, recoveredMs } = run;
  const sinceStart = (at: number) => Math.max(at - log.startedMs, 0);
  const end = performance.now();
  const before = log.phase('before', log.startedMs, startedMs);
  const during = log.phase('during', startedMs, endedMs);
  return {
    startedAt: new Date(performance.timeOrigin + log.startedMs).toISOString(),
    clients,
    command: { exitCode, startedMs: sinceStart(startedMs), endedMs: sinceStart(endedMs), schemaEqual },
    before,
    during,
    after: log.phase('after', endedMs, end),
    recoveryMs: recoveredMs === null ? null : Math.max(recoveredMs - endedMs, 0),
    seconds: log.seconds((fromMs, toMs) => monitor.waitingBetween(fromMs, toMs)),
    ...blockedOf(monitor, names),
    ...(run.lockWaits ? { lockWaits: run.lockWaits } : {}),
    failures: log.failures,
    deadlocks: deadlocksOf(run),
    connections: monitor.connections,
    pool: poolOf({ before, during }, monitor, run.sessions),
    statements,
    transactions,
  };
}

/** A request that cannot begin waits in another connection, if the application opens one: those that are missing in the run, compared with before. */
function poolOf(
  { before, during }: Pick<LoadedRunSection, 'before' | 'during'>,
  { mostWaiting, someWaitedMs }: WaitMonitor,
  sessions: LoadedRun['sessions'],
): LoadedRunSection['pool'] {
  if (!sessions) return null;
  const perMs = before.transactions / Math.max(before.durationMs, 1);
  const missing = Math.max(perMs * during.durationMs - during.transactions, 0);
  const heldBack = Math.min(missing, perMs * someWaitedMs);
  const { open, max, reserved } = sessions;
  return { needed: open + Math.round(heldBack) + mostWaiting, open, limit: max - reserved };
}

function blockedOf(
  { blocked, longestMs, mostWaiting, someWaitedMs }: WaitMonitor,
  names: ReadonlyMap<number, string>,
): Pick<LoadedRunSection, 'blocked' | 'blockedMs' | 'longestWaitMs' | 'mostWaiting' | 'someWaitedMs'> {
  const entries = [...blocked.values()].sort((one, other) => other.blockedMs - one.blockedMs);
  return {
    blockedMs: entries.reduce((sum, { blockedMs }) => sum + blockedMs, 0),
    longestWaitMs: longestMs,
    mostWaiting,
    someWaitedMs,
    blocked: entries.map(({ relation, statement, blockedMs, longestMs: longest, sessions }) => ({
      relation: relation === null ? null : (names.get(relation) ?? null),
      statement: statement?.id ?? null,
      sql: statement?.sql ?? null,
      blockedMs,
      sessions: sessions.size,
      longestMs: longest,
    })),
  };
}

function deadlocksOf({ commandDeadlocks, log, monitor, names }: LoadedRun): LoadedRunSection['deadlocks'] {
  return [
    ...commandDeadlocks.map(({ statement, detail }) => ({
      victim: 'command' as const,
      statement: statement.id,
      sql: statement.sql,
      detail: withNames(monitor.withParties(detail), names),
    })),
    ...log.deadlocks
      .filter(({ detail }) => detail === '' || monitor.isCommands(detail))
      .map(({ endedMs, detail }) => {
        const statement = monitor.statementAt(endedMs);
        return {
          victim: 'load' as const,
          statement: statement?.id ?? null,
          sql: statement?.sql ?? null,
          detail: withNames(monitor.withParties(detail), names),
        };
      }),
  ];
}

/** The server writes OIDs into its messages. */
function withNames(detail: string, names: ReadonlyMap<number, string>): string {
  return detail.replaceAll(
    /relation (\d+) of database \d+/g,
    (text, oid: string) => names.get(Number(oid)) ?? text,
  );
}
