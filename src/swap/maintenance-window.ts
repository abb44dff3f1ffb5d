import { messageOf, SafemigrateError, sqlstateOf } from '../errors.ts';
import { formatDuration } from '../format.ts';
import type { SwapSection } from '../model/report.ts';
import type { PutAside } from '../ownership/mark.ts';
import { formatMark, type Mark, ownedName } from '../ownership/mark.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Scope } from '../scope.ts';
import { failureBehind } from '../stop.ts';
import { type DatabaseWrites, propertyDigests, readClusterProperties } from './database-state.ts';
import { closeDatabase, type Fence, type Spared } from './fence.ts';
import { HeldClients } from './held-clients.ts';
import { nameConsole } from './pgbouncer.ts';
import { commitRename, openWitness, type SwapSubject } from './rename.ts';
import { type LastWord, type ReopenAgent, startReopenAgent } from './reopen-agent.ts';
import { byHand, type ClosedTarget, reopenTarget } from './reopen-target.ts';
import type { WindowPlan } from './swap-plan.ts';
import { stillClosedFailure, swapFailure } from './swap-section.ts';

/** The database that takes the target's place: closed, without sessions, verified. */
export interface Successor {
  readonly fence: Fence;
  /** Its comment once it has the target's name. */
  readonly comment: string | null;
  /** Rows written in it so far (database-state.ts). */
  readonly written: DatabaseWrites;
}

type Closing = SwapSection['closings'][number]['purpose'];

export class MaintenanceWindow {
  readonly #subject: SwapSubject;
  readonly #scope: Scope;
  readonly #plan: WindowPlan;
  readonly #closed: ClosedTarget;
  readonly #steps: SwapSection['steps'] = [];
  readonly clients: HeldClients;
  #state: 'open' | 'closed' | 'swapped' = 'open';
  #closedAt = 0;
  readonly closings: SwapSection['closings'] = [];
  #purpose: Closing = 'exchange';
  #timeLimit: NodeJS.Timeout | undefined;
  #agent: ReopenAgent | undefined;
  #lastWord: LastWord = 'done';
  #witness: Promise<Session> | undefined;
  #sessionsEnded = 0;
  /** Advice for a person after a failover. */
  #failover: string | undefined;

  constructor(subject: SwapSubject, scope: Scope, plan: WindowPlan, closed: ClosedTarget) {
    this.#subject = subject;
    this.#scope = scope;
    this.#plan = plan;
    this.#closed = closed;
    const pooled = { database: closed.database.name, port: this.#port };
    this.clients = new HeldClients(subject, scope, closed.consoles, pooled);
  }

  /** The target's own comment. */
  get comment(): string | null {
    return this.#closed.comment;
  }

  /** Runs a step and records its duration for the report. */
  async step<T>(name: string, work: () => Promise<T>): Promise<T> {
    const startedAt = performance.now();
    const result = await work();
    this.#steps.push({ name, durationMs: performance.now() - startedAt });
    return result;
  }

  async startAgent(replicating: readonly RunId[]): Promise<void> {
    const { lockDatabaseOid } = this.#subject;
    const { settings, database, server, run, consoles } = this.#closed;
    const order = { settings, database: database.name, server, run, consoles, lockDatabaseOid };
    this.#agent = await this.#scope.own(
      'reopen agent',
      () => startReopenAgent({ ...order, port: this.#port, replicating }),
      // If the target is still closed, the agent outlives us and keeps trying to reopen it.
      async (agent) => (this.#state === 'closed' ? undefined : agent?.dismiss(this.#lastWord)),
    );
  }

  /**
   * Lets the agent outlive us until the way back is over.
   * @returns its process id.
   */
  leaveWayBackToAgent(): number | null {
    this.#lastWord = 'end the way back';
    return this.#agent?.pid ?? null;
  }

  /** Writes a checkpoint, so that closing takes less time, and pauses the PgBouncers. */
  async holdClients(): Promise<void> {
    const { control, target } = this.#subject;
    // Done before clients are held, so its duration does not matter.
    if (target.role.mayCheckpoint) await this.step('checkpoint', () => control.query('CHECKPOINT'));
    await this.pausePoolers();
  }

  async pausePoolers(): Promise<void> {
    await this.clients.hold((name, work) => this.step(name, work));
  }

  /** Closes the target and ends its sessions, but for those that are spared. */
  async close(purpose: Closing, spared?: Spared): Promise<Fence> {
    const { control, signal, fail } = this.#subject;
    const { consoles, database } = this.#closed;
    const { name, oid } = database;
    this.#closedAt = performance.now();
    this.#purpose = purpose;
    if (Number.isFinite(this.#plan.maxClosedMs))
      this.#timeLimit = setTimeout(() => fail(this.#closedTooLong()), this.#plan.maxClosedMs);
    const mark = this.#mark('original', {
      state: 'fenced',
      at: { database: name, oid },
      ...(consoles.length === 0 ? {} : { pgbouncer: consoles.map(nameConsole) }),
    });
    const original = await this.#scope.own(
      `fence of ${name}`,
      () => {
        this.#state = 'closed';
        return this.step('close', () =>
          closeDatabase(control, { database: name, oid }, mark, signal, undefined, spared),
        );
      },
      () => this.#reopen(),
    );
    this.#sessionsEnded += original.ended;
    return original;
  }

  /** Logs the second session of the rename in, beside other work. The target has to be closed. */
  callWitness(): Promise<Session> {
    const called = this.#scope.own(
      'witness',
      () => openWitness(this.#subject),
      async (session) => session?.close(),
    );
    // A failure counts in rename().
    called.catch(() => {});
    this.#witness = called;
    return called;
  }

  async #dismissWitness(): Promise<void> {
    const called = this.#witness;
    this.#witness = undefined;
    await called?.then((session) => session.close()).catch(() => {});
  }

  /** Opens the target again, as it was. */
  async reopen(): Promise<void> {
    clearTimeout(this.#timeLimit);
    await this.#reopen();
    await this.clients.release();
    await this.#dismissWitness();
    await this.clients.measure();
  }

  /**
   * Gives the successor the target's name, and lets the clients in. There is nothing to undo after its COMMIT.
   * @param as the role of the database that had the name.
   */
  async rename(
    former: Fence,
    successor: Successor,
    { as, wayBack }: { readonly as: PutAside; readonly wayBack?: Mark['wayBack'] },
  ): Promise<SwapSection> {
    const { target, run, signal } = this.#subject;
    const closed = this.#closed;
    const { name, oid } = target.database;
    // From here on only a person can end the run.
    clearTimeout(this.#timeLimit);
    signal.throwIfAborted();
    if (performance.now() - this.#closedAt > this.#plan.maxClosedMs) throw this.#closedTooLong();
    const keptAs = ownedName(name, as, run);
    const keepUntil = this.#keepUntil(wayBack);
    const originalMark = this.#mark(as, {
      state: 'renamed',
      at: { database: keptAs, oid },
      successor: successor.fence.oid,
      ...(successor.written.counted ? { writes: String(successor.written.rows) } : {}),
      properties: propertyDigests(
        await readClusterProperties(this.#subject.control, successor.fence.oid),
        successor.comment,
      ),
      countedSince: successor.written.since,
      putAsideAt: new Date().toISOString(),
      ...(keepUntil === null ? {} : { keepUntil }),
      ...(wayBack === undefined ? {} : { wayBack }),
    });
    const rename = {
      server: closed.server,
      original: former,
      successor: successor.fence,
      keptAs,
      originalMark,
      comment: successor.comment,
    };
    await this.step('rename', async () => {
      // A login that failed beside our other sessions may succeed now that they have ended.
      const called = await this.#witness?.catch(() => undefined);
      const witness = called ?? (await this.callWitness());
      await commitRename(this.#subject, closed, rename, witness);
    });
    this.#state = 'swapped';
    this.#noteClosing();
    await this.clients.release();
    await this.clients.measure();
    const names = as === 'original' ? { original: keptAs } : { original: null, rolledBack: keptAs };
    return { ...this.#facts(), outcome: 'swapped', reasons: [], ...names, keepUntil };
  }

  /**
   * Reopens the target after a failure.
   * @returns the section of a swap that was undone, with the failure as its reason.
   * @throws the failure itself if it is a bug or ends the run; SafemigrateError `TARGET_CHANGED` if the target stays closed.
   */
  async undo(thrown: unknown): Promise<SwapSection> {
    clearTimeout(this.#timeLimit);
    const error = failureBehind(thrown, this.#subject.signal);
    const closed = this.#closed;
    // First of all: the removal of what was made in the meantime must not keep clients waiting.
    await this.#reopen().catch((cause: unknown) => {
      throw stillClosedFailure(closed.database.name, byHand(closed), error, cause);
    });
    await this.clients.release();
    await this.clients.stop();
    if (error instanceof SafemigrateError && error.code === 'INTERRUPTED')
      throw new SafemigrateError('INTERRUPTED', 'Interrupted. Nothing was swapped, and the target is open.');
    const endsRun = error instanceof SafemigrateError && error.code === 'TARGET_CHANGED';
    const isExpected = error instanceof SafemigrateError || sqlstateOf(error) !== undefined;
    if (endsRun || !isExpected) throw error;
    const reasons = [messageOf(error), ...(this.#failover === undefined ? [] : [this.#failover])];
    return { ...this.#facts(), outcome: 'undone', reasons, original: null, keepUntil: null };
  }

  get #port(): number {
    return this.#subject.target.settings.hosts[0]?.port ?? 5432;
  }

  async #reopen(): Promise<void> {
    if (this.#state !== 'closed') return;
    this.#failover = await reopenTarget(this.#closed);
    this.#state = 'open';
    this.#noteClosing();
  }

  #noteClosing(): void {
    this.closings.push({ purpose: this.#purpose, durationMs: performance.now() - this.#closedAt });
  }

  #facts(): Pick<SwapSection, 'stallMs' | 'closings' | 'sessionsEnded' | 'steps'> {
    const { closings } = this;
    const times = closings.map(({ durationMs }) => durationMs);
    const stallMs = times.length > 0 ? Math.max(...times) : null;
    return { stallMs, closings, sessionsEnded: this.#sessionsEnded, steps: this.#steps };
  }

  #keepUntil(wayBack: Mark['wayBack']): string | null {
    const { keepOriginalMs } = this.#plan;
    if (keepOriginalMs === null) return null;
    const asked = new Date(Date.now() + keepOriginalMs).toISOString();
    return wayBack && wayBack.until > asked ? wayBack.until : asked;
  }

  #mark(
    role: PutAside,
    more: Omit<Mark, 'version' | 'run' | 'role' | 'targetOid' | 'lockDatabaseOid' | 'comment'>,
  ): string {
    const { run, lockDatabaseOid, target } = this.#subject;
    return formatMark({
      version: 1,
      run,
      role,
      targetOid: target.database.oid,
      lockDatabaseOid,
      ...(this.comment === null ? {} : { comment: this.comment }),
      ...more,
    });
  }

  #closedTooLong(): SafemigrateError {
    return swapFailure(
      `the target was closed for longer than --limit closed allows (${formatDuration(this.#plan.maxClosedMs)})`,
    );
  }
}
