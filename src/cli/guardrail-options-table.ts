import type { Lag } from '../apply/guardrails/guardrail-options.ts';
import { oneOfValues, option, parseDuration, parseSize } from './values.ts';

/** How the command is guarded while it runs on the target, as options. */
export const DURING_OPTIONS = {
  lockTimeout: option(
    '--lock-timeout <duration>',
    'apply: lock_timeout of the command, unless it sets its own; none for CONCURRENTLY; 0: none at all',
    parseLimit,
    { default: '2s' },
  ),
  statementTimeout: option(
    '--statement-timeout <duration>',
    'apply: statement_timeout of the command, unless it sets its own',
    parseLimit,
  ),
  idleTimeout: option(
    '--idle-timeout <duration>',
    'apply: idle_in_transaction_session_timeout of the command, unless it sets its own',
    parseLimit,
  ),
  retryCount: option(
    '--retry-count <number>',
    'apply: how often a statement is sent again that did not get its lock and was alone in its transaction',
    parseCount,
    { default: '10' },
  ),
  retryTime: option('--retry-time <duration>', 'apply: for how long it is sent again', parseLimit, {
    default: '60s',
  }),
  retries: option(
    '--retries <number>',
    'apply: how often the whole command is run again that failed because of a lock, where nothing is left to chance',
    parseCount,
    { default: '0' },
  ),
  maxBlocked: option(
    '--max-blocked <duration>',
    'apply: for how long others may wait behind a statement before it is cancelled; 0: for ever',
    parseLimit,
    { default: '5s' },
  ),
  maxWaiting: option(
    '--max-waiting <number>',
    'apply: how many sessions may wait behind a statement before it is cancelled; 0: any number',
    parseCount,
    { default: '0' },
  ),
  unblock: option(
    '--unblock <whom>',
    'apply: sessions that may be ended when the command waits for them: never, idle-in-transaction',
    oneOfValues('never', 'idle-in-transaction'),
    { default: 'never' },
  ),
  onDivergence: option(
    '--on-divergence <how>',
    'apply: what becomes of a statement that was not rehearsed: stop (refuse it, and all after it), warn',
    oneOfValues('stop', 'warn'),
    { default: 'stop' },
  ),
  maxLag: option(
    '--max-lag <size or duration>',
    'apply: how far standbys may be behind when a transaction begins; it waits for them',
    parseLag,
  ),
};

type DuringValues = { [K in keyof typeof DURING_OPTIONS]?: ReturnType<(typeof DURING_OPTIONS)[K]['parse']> };

/** The core's names say the units. */
export function duringOf(values: DuringValues) {
  const { lockTimeout, statementTimeout, idleTimeout, retryTime, maxBlocked } = values;
  const { retryCount, maxWaiting, unblock, onDivergence, maxLag } = values;
  return {
    ...(lockTimeout === undefined ? {} : { lockTimeoutMs: lockTimeout }),
    ...(statementTimeout === undefined ? {} : { statementTimeoutMs: statementTimeout }),
    ...(idleTimeout === undefined ? {} : { idleTimeoutMs: idleTimeout }),
    ...(retryTime === undefined ? {} : { retryTimeMs: retryTime }),
    ...(maxBlocked === undefined ? {} : { maxBlockedMs: maxBlocked }),
    ...(retryCount === undefined ? {} : { retryCount }),
    ...(maxWaiting === undefined ? {} : { maxWaiting }),
    ...(unblock === undefined ? {} : { unblock }),
    ...(onDivergence === undefined ? {} : { onDivergence }),
    ...(maxLag === undefined ? {} : { maxLag }),
  };
}

/** A duration; `0` needs no unit. */
function parseLimit(value: string): number {
  return value.trim() === '0' ? 0 : parseDuration(value);
}

function parseCount(value: string): number {
  if (!/^\d{1,9}$/.test(value.trim())) throw new Error(`is "${value}", and must be a whole number.`);
  return Number(value);
}

function parseLag(value: string): Lag {
  return /B$/.test(value.trim()) ? { bytes: parseSize(value) } : { durationMs: parseDuration(value) };
}
