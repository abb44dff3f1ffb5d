import type { Report } from '../../model/report.ts';
import { type Family, type MetricSample, most, one, seconds, states } from './family.ts';

/** What would happen on the target, in its gravest figures. */
export function forecastFamilies({ forecast }: Report): Family[] {
  if (forecast === null) return [];
  const { locks, sessions, wal, disk } = forecast;
  const runOut = locks.map(({ sessionsRunOut }) => sessionsRunOut).filter((known) => known !== null);
  const longest = (values: (number | null | undefined)[]) => seconds(most(values.map((ms) => ms ?? null)));
  return [
    ['forecast_sampled_seconds', 'For how long the target was looked at.', one(seconds(forecast.sampledMs))],
    ['forecast_transactions_per_second', 'Of the target.', one(forecast.transactionsPerSecond)],
    ['forecast_sessions_open', 'On the server of the target.', one(sessions.open)],
    ['forecast_sessions_possible', 'For ordinary roles.', one(sessions.max - sessions.reserved)],
    [
      'forecast_queued_statements',
      'That would wait for the lock with the longest queue.',
      one(locks.length === 0 ? 0 : most(locks.map(({ queued }) => queued))),
    ],
    [
      'forecast_sessions_run_out',
      'Whether those that wait would fill the server.',
      one(runOut.length === 0 && locks.length > 0 ? null : Number(runOut.includes(true))),
    ],
    [
      'forecast_blocked_by_seconds',
      'How old the oldest transaction is that a lock would have to wait for.',
      one(longest(locks.map(({ waitsFor }) => waitsFor?.ageMs))),
    ],
    [
      'forecast_oldest_transaction_seconds',
      'The oldest transaction on the target.',
      one(seconds(forecast.oldestTransaction?.ageMs)),
    ],
    ['forecast_wal_bytes', 'That would be written.', one(wal.writtenBytes)],
    [
      'forecast_standby_behind_bytes',
      'If it replayed nothing meanwhile.',
      standbySamples(wal.standbys ?? []),
    ],
    ['forecast_disk_needed_bytes', 'At the peak.', one(disk.neededBytes)],
    ['forecast_disk_free_bytes', 'Where the target lies.', one(disk.freeBytes)],
  ];
}

/** Standbys may share a name; a series may not come twice. */
function standbySamples(standbys: readonly { name: string; behindBytes: number | null }[]): MetricSample[] {
  return [...new Set(standbys.map(({ name }) => name))].map((standby) => [
    { standby },
    most(standbys.filter(({ name }) => name === standby).map(({ behindBytes }) => behindBytes)),
  ]);
}

/** What became of `--apply`. */
export function applyFamilies({ apply }: Report): Family[] {
  if (apply === null) return [];
  const { outcome, command, committed, rolledBack, during, comparedTimes, schemaEqual } = apply;
  const unknown = committed.filter((each) => each.outcome === 'unknown').length;
  const sum = (values: number[]) => values.reduce((total, value) => total + value, 0);
  const compared = (values: number[]) => one(values.length === 0 ? null : sum(values) / 1000);
  const count = (list: readonly unknown[] | undefined) => one(list?.length ?? null);
  return [
    [
      'apply_outcome',
      'What became of the apply.',
      states(['applied', 'refused', 'failed', 'partly'], outcome),
    ],
    [
      'apply_forced',
      'Whether it was applied although the rehearsal had not passed.',
      one(Number(apply.forced !== null)),
    ],
    ['apply_command_duration_seconds', 'The command on the target.', one(seconds(command?.durationMs))],
    ['apply_command_exit_code', 'Of the command on the target.', one(command?.exitCode ?? null)],
    [
      'apply_statements',
      'Statements that wrote, by what became of them.',
      [
        [{ effect: 'committed' }, committed.length - unknown],
        [{ effect: 'unknown' }, unknown],
        [{ effect: 'rolled back' }, rolledBack.length],
      ],
    ],
    [
      'apply_schema_equal',
      'Whether the schema is the one that was rehearsed.',
      one(schemaEqual === null ? null : Number(schemaEqual)),
    ],
    ['apply_differences', 'From what was rehearsed.', count(apply.differences)],
    [
      'apply_rehearsed_duration_seconds',
      'Of the statements that can be compared, in the rehearsal.',
      compared(comparedTimes.map(({ rehearsedMs }) => rehearsedMs)),
    ],
    [
      'apply_real_duration_seconds',
      'Of the same statements, on the target.',
      compared(comparedTimes.map(({ appliedMs }) => appliedMs)),
    ],
    [
      'apply_retries',
      'Attempts that did not get their lock.',
      one(during && sum(during.retries.map(({ failed }) => failed))),
    ],
    ['apply_cancelled_statements', 'Because of those who waited behind them.', count(during?.cancelled)],
    ['apply_diverged_statements', 'That were not rehearsed.', count(during?.diverged)],
    ['apply_blockers', 'Sessions that the command waited for.', count(during?.blockers)],
    ['apply_paused_seconds', 'Held back by pause.', one(seconds(during?.pausedMs))],
    ['apply_lagged_seconds', 'Held back for standbys to catch up.', one(seconds(during?.laggedMs))],
  ];
}

/** What became of `--swap`. */
export function swapFamilies({ swap }: Report): Family[] {
  if (swap === null) return [];
  return [
    ['swap_outcome', 'What became of the swap.', states(['swapped', 'undone', 'refused'], swap.outcome)],
    ['swap_stall_seconds', 'For which nobody could connect to the target.', one(seconds(swap.stallMs))],
    ['swap_sessions_ended', 'Sessions on the target that were ended.', one(swap.sessionsEnded)],
    [
      'swap_step_duration_seconds',
      'Of each step.',
      swap.steps.map(({ name, durationMs }): MetricSample => [{ step: name }, durationMs / 1000]),
    ],
  ];
}
