import type { PostgresError } from '../../postgres/protocol/messages.ts';
import { concurrentFailure } from '../../postgres/sql/classify-statement.ts';
import type { Gate, GateAnswer, Intent, StatementAttempt } from '../../proxy/observed.ts';
import type { Rehearsed } from '../../rehearsal/receipts/rehearsed.ts';
import type { InvalidIndexes } from '../retry/invalid-indexes.ts';
import type { Retries } from '../retry/statement-retries.ts';
import type { ActivityReader } from './activity-reader.ts';
import type { BlockingMonitor } from './blocking-monitor.ts';
import { diverges } from './divergence.ts';
import type { GuardrailEvents } from './guardrail-events.ts';
import type { Guardrails } from './guardrail-options.ts';
import type { ManualControl } from './manual-control.ts';
import { awaitStandbys } from './standbys.ts';
import { settingBy } from './timeouts.ts';

export interface GateParts {
  /** The target's name. */
  readonly database: string;
  readonly rehearsed: Rehearsed;
  readonly options: Guardrails;
  readonly happenings: GuardrailEvents;
  readonly steering: ManualControl;
  readonly watchdog: BlockingMonitor;
  readonly retries: Retries;
  readonly indexes: InvalidIndexes;
  readonly looker: ActivityReader;
}

/** insufficient_privilege: tools take it as final, and do not try again. */
const NOT_ALLOWED = '42501';
/** query_canceled */
const CANCELED = '57014';
/** By these words a refusal because of those who wait is told from every other cancel. */
export const OVERDUE = 'other sessions have waited too long behind this transaction';

/** Decides of each statement on its way to the target, and of each that failed. */
export class ApplyGate implements Gate {
  readonly #parts: GateParts;
  /** Once something was sent that was not rehearsed, what follows from it was not either. */
  #stopped = false;

  constructor(parts: GateParts) {
    this.#parts = parts;
  }

  async before(intent: Intent): Promise<GateAnswer> {
    const { happenings, indexes } = this.#parts;
    // COMMIT and ROLLBACK give locks back, whatever has happened.
    if (intent.parsed && intent.parsed.role !== 'ordinary') return 'run';
    const refusal = this.#refusal(intent);
    if (refusal) return refusal;
    const setting = intent.parsed && settingBy(intent.parsed.node, intent.sql);
    if (setting) happenings.ownTimeout({ ...setting, where: 'statement' });
    await indexes.remember(intent);
    return 'run';
  }

  async between(signal: AbortSignal): Promise<void> {
    const { steering, looker, happenings, options } = this.#parts;
    await steering.hold(signal);
    if (options.maxLag === null) return;
    await awaitStandbys(looker, options.maxLag, happenings, signal);
    // Somebody may have paused it meanwhile.
    await steering.hold(signal);
  }

  /** CONCURRENTLY waits for others by its nature, and may leave something invalid behind if it does not come to its end. */
  waitsForLocks({ parsed }: Intent): boolean {
    return parsed !== null && concurrentFailure(parsed.node) !== undefined;
  }

  async after(intent: Intent, attempt: StatementAttempt): Promise<'deliver' | 'retry'> {
    const { retries, steering } = this.#parts;
    const signal = AbortSignal.any([attempt.signal, steering.aborting]);
    const answer = await retries.after(intent, { ...attempt, signal });
    if (answer === 'deliver') return answer;
    await this.between(signal);
    return steering.aborted ? 'deliver' : 'retry';
  }

  #refusal({ sql, session, parsed }: Intent): PostgresError | undefined {
    const { steering, watchdog, happenings, rehearsed, options } = this.#parts;
    if (steering.aborted)
      return { sqlstate: CANCELED, message: 'safemigrate was told to abort this run (safemigrate abort)' };
    const overdue = watchdog.overdue(session);
    if (overdue) {
      happenings.cancelled({ sql, outcome: 'refused', ...overdue });
      return {
        sqlstate: CANCELED,
        message: OVERDUE,
        hint: 'safemigrate lets nothing but its end through. --max-blocked and --max-waiting are the limits.',
      };
    }
    const { onDivergence, redact } = options;
    const sent = { sql, node: parsed?.node ?? null };
    if (!diverges(rehearsed, sent, { redacted: redact, database: this.#parts.database })) return undefined;
    if (this.#stopped) return notRehearsed('this statement was not rehearsed either');
    const stopped = onDivergence === 'stop';
    happenings.diverged({ sql, stopped });
    if (!stopped) {
      happenings.say(`${happenings.named(sql)} was not rehearsed (--on-divergence warn)`);
      return undefined;
    }
    this.#stopped = true;
    return notRehearsed('this statement was not rehearsed');
  }
}

function notRehearsed(what: string): PostgresError {
  return {
    sqlstate: NOT_ALLOWED,
    message: `safemigrate does not run what it has not seen on a clone: ${what}`,
    hint: 'The target may have changed, or the command does not do the same each time. --on-divergence warn lets it through.',
  };
}
