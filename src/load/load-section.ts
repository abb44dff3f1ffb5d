import type { LoadSection } from '../model/load-model.ts';
import type { Statement } from '../proxy/observed.ts';
import type { TrafficLog } from './traffic-log.ts';
import type { WaitMonitor } from './wait-monitor.ts';

/** An error of the command in its run under load. */
export interface CommandDeadlock {
  readonly statement: Statement;
  readonly detail: string;
}

/** Times by performance.now(). */
export interface LoadTimes {
  readonly startedMs: number;
  readonly endedMs: number;
  readonly recoveredMs: number | null;
}

export interface LoadedRun {
  readonly source: LoadSection['source'];
  readonly origin: string;
  readonly clients: number;
  readonly exitCode: number | null;
  readonly schemaEqual: boolean | null;
  readonly times: LoadTimes;
  readonly monitor: WaitMonitor;
  readonly log: TrafficLog;
  readonly commandDeadlocks: readonly CommandDeadlock[];
  /** Names of relations by OID. */
  readonly names: ReadonlyMap<number, string>;
}

/** Makes the report's section of what was measured under load. */
export function describeLoad(run: LoadedRun): LoadSection {
  const { source, origin, clients, exitCode, schemaEqual, times, monitor, log, names } = run;
  const { startedMs, endedMs, recoveredMs } = times;
  const sinceStart = (at: number) => Math.max(at - log.startedMs, 0);
  const end = performance.now();
  return {
    ...{ source, origin, clients },
    command: { exitCode, startedMs: sinceStart(startedMs), endedMs: sinceStart(endedMs), schemaEqual },
    before: log.phase('before', log.startedMs, startedMs),
    during: log.phase('during', startedMs, endedMs),
    after: log.phase('after', endedMs, end),
    recoveryMs: recoveredMs === null ? null : Math.max(recoveredMs - endedMs, 0),
    seconds: log.seconds((second) => monitor.waitingIn(second)),
    ...blockedOf(monitor, names),
    failures: log.failures,
    deadlocks: deadlocksOf(run),
    connections: monitor.connections,
  };
}

function blockedOf(
  { blocked, longestMs, mostWaiting }: WaitMonitor,
  names: ReadonlyMap<number, string>,
): Pick<LoadSection, 'blocked' | 'blockedMs' | 'longestWaitMs' | 'mostWaiting'> {
  const entries = [...blocked.values()].sort((one, other) => other.blockedMs - one.blockedMs);
  return {
    blockedMs: entries.reduce((sum, { blockedMs }) => sum + blockedMs, 0),
    longestWaitMs: longestMs,
    mostWaiting,
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

function deadlocksOf({ commandDeadlocks, log, monitor, names }: LoadedRun): LoadSection['deadlocks'] {
  return [
    ...commandDeadlocks.map(({ statement, detail }) => ({
      victim: 'command' as const,
      ...{ statement: statement.id, sql: statement.sql, detail: withNames(detail, names) },
    })),
    ...log.deadlocks
      .filter(({ detail }) => detail === '' || monitor.isCommands(detail))
      .map(({ endedMs, detail }) => {
        const statement = monitor.statementAt(endedMs);
        return {
          victim: 'load' as const,
          ...{ statement: statement?.id ?? null, sql: statement?.sql ?? null },
          detail: withNames(detail, names),
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
