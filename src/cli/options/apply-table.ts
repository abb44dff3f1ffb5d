import { APPLY_DEFAULTS, type ApplySettings } from '../../apply/apply-options.ts';
import {
  GUARDRAIL_DEFAULTS,
  type GuardrailSettings,
  type Lag,
  type Unblock,
} from '../../apply/guardrails/guardrail-options.ts';
import { declareOptions } from './option-spec.ts';
import { COUNT, choiceOf, DURATION, listOf, SIZE, TEXT, TIME_LIMIT, type ValueType } from './value-types.ts';

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

const APPLY_ONLY = { group: 'Apply', modes: ['apply'] } as const;

/** Whether and how often the command runs on the target. */
export const APPLY_TABLE = declareOptions<ApplySettings>(APPLY_DEFAULTS, {
  force: {
    ...APPLY_ONLY,
    flag: '--force <reason>',
    summary: 'apply although the rehearsal did not pass; the reason is reported',
    type: TEXT,
    notInFile: true,
  },
  maxAgeMs: {
    ...APPLY_ONLY,
    flag: '--max-age <duration>',
    summary: 'oldest receipt that is accepted',
    type: DURATION,
  },
  retries: {
    ...APPLY_ONLY,
    flag: '--retries <number>',
    summary: 'reruns of the command after a lock failure, if it is safe',
    type: COUNT,
  },
});

/** How the command is guarded while it runs on the target. */
export const GUARDRAIL_TABLE = declareOptions<GuardrailSettings>(GUARDRAIL_DEFAULTS, {
  lockTimeoutMs: {
    ...APPLY_ONLY,
    flag: '--lock-timeout <duration>',
    summary: 'lock_timeout of the command, unless it sets its own; none for CONCURRENTLY; 0: none at all',
    type: TIME_LIMIT,
  },
  statementTimeoutMs: {
    ...APPLY_ONLY,
    flag: '--statement-timeout <duration>',
    summary: 'statement_timeout of the command, unless it sets its own',
    type: TIME_LIMIT,
  },
  idleTimeoutMs: {
    ...APPLY_ONLY,
    flag: '--idle-timeout <duration>',
    summary: 'idle_in_transaction_session_timeout of the command, unless it sets its own',
    type: TIME_LIMIT,
  },
  retryOn: {
    ...APPLY_ONLY,
    flag: '--retry-on <failure>',
    summary: 'what a statement, or the command with --retries, is retried after: lock-timeout, deadlock',
    type: listOf(choiceOf('lock-timeout', 'deadlock')),
  },
  retryCount: {
    ...APPLY_ONLY,
    flag: '--retry-count <number>',
    summary: 'retries of a statement that failed because of a lock and was alone in its transaction',
    type: COUNT,
  },
  retryTimeMs: {
    ...APPLY_ONLY,
    flag: '--retry-time <duration>',
    summary: 'how long it is retried',
    type: TIME_LIMIT,
  },
  maxBlockedMs: {
    ...APPLY_ONLY,
    flag: '--max-blocked <duration>',
    summary: 'how long others may wait behind a statement before it is cancelled; 0: no limit',
    type: TIME_LIMIT,
  },
  maxWaiting: {
    ...APPLY_ONLY,
    flag: '--max-waiting <number>',
    summary: 'how many sessions may wait behind a statement before it is cancelled; 0: no limit',
    type: COUNT,
  },
  unblock: {
    ...APPLY_ONLY,
    flag: '--unblock <whom>',
    summary:
      'sessions that may be terminated if the command waits for them: never, idle-in-transaction, active:<duration> (also the oldest transaction that has blocked it for so long)',
    type: UNBLOCK,
    notInFile: true,
  },
  onDivergence: {
    ...APPLY_ONLY,
    flag: '--on-divergence <how>',
    summary: 'for a statement that was not rehearsed: stop (refuse it and all after it), warn',
    type: choiceOf('stop', 'warn'),
    notInFile: true,
  },
  maxLag: {
    ...APPLY_ONLY,
    flag: '--max-lag <size or duration>',
    summary: 'how far standbys may be behind when a transaction begins; it waits for them',
    type: LAG,
  },
});
