import type { Report } from '../model/report.ts';
import type { RehearseOptions } from '../rehearsal/rehearsal-settings.ts';
import { flag, grouped, type OptionsOf, type PlanOf, unflagged } from '../settings.ts';
import { COUNT, choiceOf, DURATION, listOf, SIZE, TEXT, TIME_LIMIT, type ValueType } from '../value-types.ts';

/** `activeAfterMs`: also the oldest transaction that has been blocking the command for so long. */
export type Unblock = 'never' | 'idle-in-transaction' | { readonly activeAfterMs: number };

export type Lag = { readonly bytes: number } | { readonly durationMs: number };

const LAG: ValueType<Lag> = {
  parse: (text) =>
    /B$/.test(text.trim()) ? { bytes: SIZE.parse(text) } : { durationMs: DURATION.parse(text) },
  format: (value) => ('bytes' in value ? SIZE.format(value.bytes) : DURATION.format(value.durationMs)),
};

const ACTIVE = /^active:(.+)$/;
const UNBLOCK: ValueType<Unblock> = {
  parse: (text) => {
    if (text === 'never' || text === 'idle-in-transaction') return text;
    const duration = ACTIVE.exec(text)?.[1];
    if (duration !== undefined) return { activeAfterMs: DURATION.parse(duration) };
    throw new Error(`is "${text}", and can be never, idle-in-transaction or active:<duration>.`);
  },
  format: (value) => (typeof value === 'string' ? value : `active:${DURATION.format(value.activeAfterMs)}`),
};

/** Everything that a user can set for an apply, beyond its rehearsal. */
export const APPLY_SETTINGS = grouped(
  { group: 'Apply', modes: ['apply'] },
  {
    force: flag('--force <reason>', TEXT, {
      summary: 'apply although the rehearsal did not pass; the reason is reported',
      notInFile: true,
    }),
    maxAgeMs: flag('--limit age=<duration>', DURATION, {
      default: 24 * 3_600_000,
      summary: 'oldest receipt that is accepted',
    }),
    retries: flag('--retries <number>', COUNT, {
      default: 0,
      summary: 'reruns of the command after a lock failure, if it is safe',
    }),
    // How the command is guarded while it runs on the target; 0 is no limit.
    guardrails: {
      lockTimeoutMs: flag('--lock-timeout <duration>', TIME_LIMIT, {
        default: 2_000,
        summary: 'lock_timeout of the command, unless it sets its own; none for CONCURRENTLY; 0: none at all',
      }),
      statementTimeoutMs: unflagged('statementTimeout', TIME_LIMIT, {
        default: 0,
        summary: 'statement_timeout of the command, unless it sets its own',
      }),
      idleTimeoutMs: unflagged('idleTimeout', TIME_LIMIT, {
        default: 0,
        summary: 'idle_in_transaction_session_timeout of the command, unless it sets its own',
      }),
      retryOn: unflagged('retryOn', listOf(choiceOf('lock-timeout', 'deadlock')), {
        default: ['lock-timeout', 'deadlock'],
        summary: 'what a statement, or the command with --retries, is retried after: lock-timeout, deadlock',
      }),
      retryCount: unflagged('retryCount', COUNT, {
        default: 10,
        summary: 'retries of a statement that failed because of a lock and was alone in its transaction',
      }),
      retryTimeMs: unflagged('retryTime', TIME_LIMIT, {
        default: 60_000,
        summary: 'how long it is retried',
      }),
      maxBlockedMs: flag('--limit blocked=<duration>', TIME_LIMIT, {
        default: 5_000,
        summary: 'how long others may wait behind a statement before it is cancelled; 0: no limit',
      }),
      maxWaiting: flag('--limit waiting=<number>', COUNT, {
        default: 0,
        summary: 'how many sessions may wait behind a statement before it is cancelled; 0: no limit',
      }),
      unblock: flag('--unblock <whom>', UNBLOCK, {
        default: 'never',
        summary:
          'sessions that may be terminated if the command waits for them: never, idle-in-transaction, active:<duration> (also the oldest transaction that has blocked it for so long)',
        notInFile: true,
      }),
      onDivergence: flag('--on-divergence <how>', choiceOf('stop', 'warn'), {
        default: 'stop',
        summary: 'for a statement that was not rehearsed: stop (refuse it and all after it), warn',
        notInFile: true,
      }),
      maxLag: flag('--limit lag=<size or duration>', LAG, {
        summary: 'how far standbys may be behind when a transaction begins; it waits for them',
      }),
    },
  },
);

/** The settings of the guardrails, with every default filled in. */
export type Guardrails = PlanOf<typeof APPLY_SETTINGS>['guardrails'];

export interface ApplyOptions extends RehearseOptions, OptionsOf<typeof APPLY_SETTINGS> {
  /** Gets the report of the rehearsal, and answers whether to go on. */
  readonly confirm: (report: Report) => Promise<boolean>;
}
