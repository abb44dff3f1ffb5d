/** How the command is guarded while it runs on the target; null and 0 mean: no such limit. */
export interface GuardrailOptions {
  /** The address that the command connects to. */
  readonly listen?: string;
  /** Literals are left out of what is reported, and were in the rehearsal. */
  readonly redact: boolean;
  /** Settings of the command's sessions. Default 2 s. */
  readonly lockTimeoutMs?: number;
  readonly statementTimeoutMs?: number;
  /** idle_in_transaction_session_timeout. */
  readonly idleTimeoutMs?: number;
  /** How often a statement is sent again that did not get its lock. Default 10. */
  readonly retryCount?: number;
  /** For how long, from its first attempt on. Default 60 s. */
  readonly retryTimeMs?: number;
  /** For how long a session may wait behind the command. Default 5 s. */
  readonly maxBlockedMs?: number;
  /** How many sessions may wait behind it. */
  readonly maxWaiting?: number;
  /** Whom the command may end that it waits for. Default `never`. */
  readonly unblock?: 'never' | 'idle-in-transaction';
  /** Of a statement that was not rehearsed. Default `stop`. */
  readonly onDivergence?: 'stop' | 'warn';
  /** How far standbys may be behind when a transaction begins. */
  readonly maxLag?: Lag;
  /** Where the run listens for `pause`, `resume` and `abort`. Default: the user's state folder. */
  readonly env?: NodeJS.ProcessEnv;
}

export type Lag = { readonly bytes: number } | { readonly durationMs: number };

/** What holds where nothing was said. */
export function withDefaults(options: GuardrailOptions) {
  const { lockTimeoutMs = 2_000, statementTimeoutMs = 0, idleTimeoutMs = 0 } = options;
  const { retryCount = 10, retryTimeMs = 60_000, maxBlockedMs = 5_000, maxWaiting = 0 } = options;
  const { unblock = 'never', onDivergence = 'stop', maxLag = null, redact, env = process.env } = options;
  return {
    ...{
      lockTimeoutMs,
      statementTimeoutMs,
      idleTimeoutMs,
      retryCount,
      retryTimeMs,
      maxBlockedMs,
      maxWaiting,
    },
    ...{ unblock, onDivergence, maxLag, redact, env },
  };
}

export type Guardrails = ReturnType<typeof withDefaults>;

/** What the command's sessions begin with. */
export function settingsOf({ lockTimeoutMs, statementTimeoutMs, idleTimeoutMs }: Guardrails) {
  const settings: Record<string, string> = {};
  if (lockTimeoutMs > 0) settings.lock_timeout = String(lockTimeoutMs);
  if (statementTimeoutMs > 0) settings.statement_timeout = String(statementTimeoutMs);
  if (idleTimeoutMs > 0) settings.idle_in_transaction_session_timeout = String(idleTimeoutMs);
  return settings;
}
