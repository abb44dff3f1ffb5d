import type { Report } from '../../model/report.ts';
import { type Family, type MetricSample, most, one, seconds, states } from './family.ts';

/** The worst figures of the forecast for the target. */
export function forecastFamilies({ forecast }: Report): Family[] {
  if (forecast === null) return [];
  const { locks, sessions, wal, disk } = forecast;
  const runOut = locks.map(({ sessionsRunOut }) => sessionsRunOut).filter((known) => known !== null);
  const longest = (values: (number | null | undefined)[]) => seconds(most(values.map((ms) => ms ?? null)));
  return [
    [
      'forecast_sampled_seconds',
      'Time for which statistics of the target were sampled.',
      one(seconds(forecast.sampledMs)),
    ],
    ['forecast_transactions_per_second', 'Transactions on the target.', one(forecast.transactionsPerSecond)],
    ['forecast_sessions_open', "Open sessions on the target's server.", one(sessions.open)],
    [
      'forecast_sessions_possible',
      'Sessions that ordinary roles can open.',
      one(sessions.max - sessions.reserved),
    ],
    [
      'forecast_queued_statements',
      'Statements that would wait for the lock with the longest queue.',
      one(locks.length === 0 ? 0 : most(locks.map(({ queued }) => queued))),
    ],
    [
      'forecast_sessions_run_out',
      'Whether waiting statements would use up all connections.',
      one(runOut.length === 0 && locks.length > 0 ? null : Number(runOut.includes(true))),
    ],
    [
      'forecast_blocked_by_seconds',
      'Age of the oldest transaction that a lock would wait for.',
      one(longest(locks.map(({ waitsFor }) => waitsFor?.ageMs))),
    ],
    [
      'forecast_oldest_transaction_seconds',
      'Age of the oldest transaction on the target.',
      one(seconds(forecast.oldestTransaction?.ageMs)),
    ],
    ['forecast_wal_bytes', 'WAL that would be written.', one(wal.writtenBytes)],
    [
      'forecast_standby_behind_bytes',
      'Lag of the standby if it replayed nothing during the command.',
      standbySamples(wal.standbys ?? []),
    ],
    ['forecast_disk_needed_bytes', 'Disk space needed at the peak.', one(disk.neededBytes)],
    ['forecast_disk_free_bytes', "Free disk space on the target's file system.", one(disk.freeBytes)],
  ];
}

/** Standbys may share a name, but a series may occur only once. */
function standbySamples(standbys: readonly { name: string; behindBytes: number | null }[]): MetricSample[] {
  return [...new Set(standbys.map(({ name }) => name))].map((standby) => [
    { standby },
    most(standbys.filter(({ name }) => name === standby).map(({ behindBytes }) => behindBytes)),
  ]);
}

/** The outcome of `--apply`. */
export function applyFamilies({ apply }: Report): Family[] {
  if (apply === null) return [];
  const { outcome, command, committed, rolledBack, during, comparedTimes, schemaEqual } = apply;
  const unknown = committed.filter((each) => each.outcome === 'unknown').length;
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  const compared = (values: number[]) => one(values.length === 0 ? null : sum(values) / 1000);
  const count = (list: readonly unknown[] | undefined) => one(list?.length ?? null);
  return [
    ['apply_outcome', 'Outcome of the apply.', states(['applied', 'refused', 'failed', 'partly'], outcome)],
    [
      'apply_forced',
      'Whether the command was applied although the rehearsal had not passed.',
      one(Number(apply.forced !== null)),
    ],
    [
      'apply_command_duration_seconds',
      'Duration of the command on the target.',
      one(seconds(command?.durationMs)),
    ],
    ['apply_command_exit_code', 'Exit code of the command on the target.', one(command?.exitCode ?? null)],
    [
      'apply_statements',
      'Statements that wrote, by their outcome.',
      [
        [{ effect: 'committed' }, committed.length - unknown],
        [{ effect: 'unknown' }, unknown],
        [{ effect: 'rolled back' }, rolledBack.length],
      ],
    ],
    [
      'apply_schema_equal',
      'Whether the schema is as rehearsed.',
      one(schemaEqual === null ? null : Number(schemaEqual)),
    ],
    ['apply_differences', 'Differences from the rehearsal.', count(apply.differences)],
    [
      'apply_rehearsed_duration_seconds',
      'Time of comparable statements in the rehearsal.',
      compared(comparedTimes.map(({ rehearsedMs }) => rehearsedMs)),
    ],
    [
      'apply_real_duration_seconds',
      'Time of the same statements on the target.',
      compared(comparedTimes.map(({ appliedMs }) => appliedMs)),
    ],
    [
      'apply_retries',
      'Attempts that timed out waiting for a lock.',
      one(during && sum(during.retries.map(({ failed }) => failed))),
    ],
    [
      'apply_cancelled_statements',
      'Statements cancelled because they blocked other sessions.',
      count(during?.cancelled),
    ],
    [
      'apply_diverged_statements',
      'Statements that were not rehearsed.',
      count(during?.diverged.filter(({ onlyValues }) => !onlyValues)),
    ],
    ['apply_blockers', 'Sessions that blocked the command.', count(during?.blockers)],
    [
      'apply_paused_seconds',
      'Time for which safemigrate pause held statements back.',
      one(seconds(during?.pausedMs)),
    ],
    [
      'apply_lagged_seconds',
      'Time for which statements were held back until standbys caught up.',
      one(seconds(during?.laggedMs)),
    ],
  ];
}

/** The outcome of `--swap`. */
export function swapFamilies({ swap }: Report): Family[] {
  if (swap === null) return [];
  return [
    ['swap_outcome', 'Outcome of the swap.', states(['swapped', 'undone', 'refused'], swap.outcome)],
    [
      'swap_stall_seconds',
      'Time for which no session could connect to the target.',
      one(seconds(swap.stallMs)),
    ],
    ['swap_sessions_ended', 'Sessions on the target that were terminated.', one(swap.sessionsEnded)],
    [
      'swap_step_duration_seconds',
      'Duration of each step.',
      swap.steps.map(({ name, durationMs }): MetricSample => [{ step: name }, durationMs / 1000]),
    ],
  ];
}
