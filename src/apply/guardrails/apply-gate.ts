import { formatBytes, formatDuration } from '../../format.ts';
import type { ActivityReader } from '../../observe/activity-reader.ts';
import type { PostgresError } from '../../postgres/protocol/messages.ts';
import { concurrentFailure, fieldsIf, settingsNamedBy } from '../../postgres/sql/classify-statement.ts';
import type { Node } from '../../postgres/sql/tree.ts';
import type { Gate, GateAnswer, Intent, StatementAttempt } from '../../proxy/observed.ts';
import type { Guardrails, Lag } from '../apply-settings.ts';
import { pause } from '../retry/backoff.ts';
import type { InvalidIndexes } from '../retry/invalid-indexes.ts';
import type { Retries } from '../retry/statement-retries.ts';
import type { BlockingMonitor } from './blocking-monitor.ts';
import type { GuardrailEvents } from './guardrail-events.ts';
import type { ManualControl } from './manual-control.ts';
import type { Compared, RunComparison } from './run-comparison.ts';

export interface GateParts {
  readonly comparison: RunComparison;
  readonly guardrails: Guardrails;
  readonly events: GuardrailEvents;
  readonly manualControl: ManualControl;
  readonly blockingMonitor: BlockingMonitor;
  readonly retries: Retries;
  readonly indexes: InvalidIndexes;
  readonly activity: ActivityReader;
}

/** insufficient_privilege: tools do not retry after it. */
const NOT_ALLOWED = '42501';
/** query_canceled */
const CANCELED = '57014';
/** Message that marks a cancel caused by blocked sessions. */
export const OVERDUE = 'this transaction has blocked other sessions for too long';

/** Decides whether each statement of the command may run on the target, and whether a failed one is retried. */
export class ApplyGate implements Gate {
  readonly #parts: GateParts;
  /** A statement was refused as not rehearsed, so those after it may differ as a consequence. */
  #stopped = false;

  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  async before(intent: Intent): Promise<GateAnswer> {
    const { events, indexes } = this.#parts;
    const compared = this.#parts.comparison.next(intent);
    // COMMIT and ROLLBACK release locks, so they always pass.
    if (intent.parsed && intent.parsed.role !== 'ordinary') return 'run';
    const refusal = this.#refusal(intent, compared);
    if (refusal) return refusal;
    const setting = intent.parsed && settingBy(intent.parsed.node, intent.sql);
    if (setting) events.ownTimeout({ ...setting, where: 'statement' });
    await indexes.remember(intent);
    return 'run';
  }

  async between(signal: AbortSignal): Promise<void> {
    const { manualControl, activity, events, guardrails } = this.#parts;
    await manualControl.hold(signal);
    if (guardrails.maxLag === null) return;
    await awaitStandbys(activity, guardrails.maxLag, events, signal);
    // A person may have paused the run in the meantime.
    await manualControl.hold(signal);
  }

  /** A concurrent statement must wait for other transactions, and may leave an invalid object if it fails. */
  waitsForLocks({ parsed }: Intent): boolean {
    return parsed !== null && concurrentFailure(parsed.node) !== undefined;
  }

  async after(intent: Intent, attempt: StatementAttempt): Promise<'deliver' | 'retry'> {
    const { retries, manualControl } = this.#parts;
    const signal = AbortSignal.any([attempt.signal, manualControl.aborting]);
    const answer = await retries.after(intent, { ...attempt, signal });
    if (answer === 'deliver') return answer;
    await this.between(signal);
    return manualControl.aborted ? 'deliver' : 'retry';
  }

  #refusal({ sql, session }: Intent, compared: Compared): PostgresError | undefined {
    const { manualControl, blockingMonitor, events, guardrails } = this.#parts;
    if (manualControl.aborted)
      return { sqlstate: CANCELED, message: 'this run was aborted (safemigrate abort)' };
    const overdue = blockingMonitor.overdue(session);
    if (overdue) {
      events.cancelled({ sql, outcome: 'refused', ...overdue });
      return {
        sqlstate: CANCELED,
        message: OVERDUE,
        hint: 'Only COMMIT and ROLLBACK may follow. --limit blocked and --limit waiting set the limits.',
      };
    }
    if (compared === 'rehearsed') return undefined;
    if (this.#stopped) return notRehearsed('this statement was not rehearsed either');
    if (compared === 'other values') {
      events.diverged({ sql, stopped: false, onlyValues: true });
      events.say(`${events.named(sql)} has other values than in the rehearsal`);
      return undefined;
    }
    const stopped = guardrails.onDivergence === 'stop';
    const how =
      compared === 'other settings' ? `was rehearsed ${this.#otherSettings(session)}` : 'was not rehearsed';
    events.diverged({ sql, stopped, onlyValues: false });
    if (!stopped) {
      events.say(`${events.named(sql)} ${how} (--on-divergence warn)`);
      return undefined;
    }
    this.#stopped = true;
    return notRehearsed(`this statement ${how}`);
  }

  #otherSettings(session: number): string {
    const now = this.#parts.comparison.settingsOf(session);
    return now.length === 0
      ? 'with settings that this session has not made'
      : `with other settings than ${now.join(', ')}`;
  }
}

function notRehearsed(what: string): PostgresError {
  return {
    sqlstate: NOT_ALLOWED,
    message: `safemigrate runs only rehearsed statements on the target: ${what}`,
    hint: 'The target may have changed, or the command is not deterministic. --on-divergence warn permits the statement.',
  };
}

const TIMEOUTS = ['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout'] as const;

/** Returns the timeout that a statement sets: by SET, or by set_config(), whose value is not looked up. */
export function settingBy(node: Node, sql: string): { setting: string; value: string | null } | undefined {
  const settings = settingsNamedBy(node);
  const setting = TIMEOUTS.find((timeout) => settings.includes(timeout));
  if (setting === undefined) return undefined;
  if (!fieldsIf(node, 'VariableSetStmt')) return { setting, value: null };
  return { setting, value: /(?:=|\bto\b)\s*(.+?)\s*;?$/is.exec(sql)?.[1] ?? null };
}

const LAG = `
SELECT coalesce(max(pg_wal_lsn_diff(pg_current_wal_lsn(), replay_lsn)), 0)::float8 AS bytes,
       coalesce(max(extract(epoch FROM replay_lag)), 0)::float8 * 1000 AS ms
  FROM pg_stat_replication WHERE state IN ('streaming', 'catchup')`;
const CHECK_EVERY_MS = 500;

interface Row {
  bytes: number;
  ms: number;
}

/** Waits until no standby's lag exceeds the limit. If the lag cannot be read, it does not wait. */
export async function awaitStandbys(
  activity: ActivityReader,
  limit: Lag,
  events: GuardrailEvents,
  signal: AbortSignal,
): Promise<void> {
  const begun = performance.now();
  for (let said = false; !signal.aborted; said = true) {
    const [lag] = (await activity.ask<Row>(LAG, [])) ?? [];
    if (!lag || !exceeds(lag, limit)) {
      if (said) events.lagged(performance.now() - begun);
      return;
    }
    if (!said)
      events.say(
        `a standby is ${formatBytes(lag.bytes)} and ${formatDuration(lag.ms)} behind: the next transaction waits for it (--limit lag)`,
      );
    await pause(CHECK_EVERY_MS, signal);
  }
}

function exceeds({ bytes, ms }: Row, limit: Lag): boolean {
  return 'bytes' in limit ? bytes > limit.bytes : ms > limit.durationMs;
}
