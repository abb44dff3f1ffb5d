import type { LockFailure } from '../../postgres/lock-failures.ts';

/** How the command is guarded while it runs on the target; 0 is no limit. */
export interface GuardrailSettings {
  /** Settings of the command's sessions. */
  readonly lockTimeoutMs?: number;
  readonly statementTimeoutMs?: number;
  /** idle_in_transaction_session_timeout. */
  readonly idleTimeoutMs?: number;
  /** Failures after which a statement, or the command with --retries, is sent again. */
  readonly retryOn?: readonly LockFailure[];
  /** How often a statement is sent again that failed because of a lock. */
  readonly retryCount?: number;
  /** For how long, from its first attempt on. */
  readonly retryTimeMs?: number;
  /** How long a session may wait behind the command. */
  readonly maxBlockedMs?: number;
  /** How many sessions may wait behind it. */
  readonly maxWaiting?: number;
  /** Sessions that may be terminated if the command waits for them. */
  readonly unblock?: Unblock;
  /** Reaction to a statement that was not rehearsed. */
  readonly onDivergence?: 'stop' | 'warn';
  /** How far standbys may be behind when a transaction begins; null: any distance. */
  readonly maxLag?: Lag | null;
}

/** `activeAfterMs`: also the oldest transaction that has been blocking the command for so long. */
export type Unblock = 'never' | 'idle-in-transaction' | { readonly activeAfterMs: number };

export type Lag = { readonly bytes: number } | { readonly durationMs: number };

/** The one place of these defaults. */
export const GUARDRAIL_DEFAULTS = {
  lockTimeoutMs: 2_000,
  statementTimeoutMs: 0,
  idleTimeoutMs: 0,
  retryOn: ['lock-timeout', 'deadlock'],
  retryCount: 10,
  retryTimeMs: 60_000,
  maxBlockedMs: 5_000,
  maxWaiting: 0,
  unblock: 'never',
  onDivergence: 'stop',
  maxLag: null,
} as const satisfies Required<GuardrailSettings>;

/** The settings with every default filled in. */
export type Guardrails = Required<GuardrailSettings>;

/** The settings that the command's sessions begin with. */
export function settingsOf({ lockTimeoutMs, statementTimeoutMs, idleTimeoutMs }: Guardrails) {
  const settings: Record<string, string> = {};
  if (lockTimeoutMs > 0) settings.lock_timeout = String(lockTimeoutMs);
  if (statementTimeoutMs > 0) settings.statement_timeout = String(statementTimeoutMs);
  if (idleTimeoutMs > 0) settings.idle_in_transaction_session_timeout = String(idleTimeoutMs);
  return settings;
}
