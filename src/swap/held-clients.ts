import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Scope } from '../scope.ts';
import { type MeasuringClient, measuringClient } from './measuring-client.ts';
import { type PooledTarget, pausePooler } from './pgbouncer.ts';
import type { SwapSubject } from './rename.ts';

/** The clients of a target that is closed: those of PgBouncers wait, and one of the run measures for how long there is no answer. */
export class HeldClients {
  readonly #subject: SwapSubject;
  readonly #scope: Scope;
  readonly #consoles: readonly ConnectionSettings[];
  readonly #pooled: PooledTarget;
  /** Functions that let the clients of a paused PgBouncer go on. */
  readonly #resuming: (() => Promise<void>)[] = [];
  #probe: MeasuringClient | undefined;
  /** Longest time for which our client had no answer when the target was closed last; null: not measured. */
  gapMs: number | null = null;

  /** @param consoles of the PgBouncers. */
  constructor(
    subject: SwapSubject,
    scope: Scope,
    consoles: readonly ConnectionSettings[],
    pooled: PooledTarget,
  ) {
    this.#subject = subject;
    this.#scope = scope;
    this.#consoles = consoles;
    this.#pooled = pooled;
  }

  /** Has a client measure, from now on, for how long clients get no answer each time. */
  async measureGaps(): Promise<void> {
    this.#probe = await this.#scope.own(
      'client that measures',
      async () => measuringClient(this.#subject, this.#consoles, this.#pooled),
      async (probe) => probe?.stop(),
    );
  }

  /** Pauses the PgBouncers, before the target is closed. @param step runs, and records, each pause. */
  async hold(step: <T>(name: string, work: () => Promise<T>) => Promise<T>): Promise<void> {
    await this.#probe?.begin();
    for (const console of this.#consoles) {
      const pause = () => step('pause', () => pausePooler(console, this.#pooled));
      this.#resuming.push(await this.#scope.own('pause of PgBouncer', pause, async (resume) => resume?.()));
    }
  }

  /** Resumes all PgBouncers at once. What fails here is tried again, and reported, when the scope is released. */
  async release(): Promise<void> {
    await Promise.allSettled(this.#resuming.map((resume) => resume()));
  }

  /** Waits for an answer to our client, which ends its measurement. Called after the opening. */
  async measure(): Promise<void> {
    this.gapMs = (await this.#probe?.opened()) ?? null;
  }

  /** Gives the measurement up. */
  async stop(): Promise<void> {
    await this.#probe?.stop();
  }
}
