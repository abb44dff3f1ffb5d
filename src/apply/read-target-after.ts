import { setTimeout as delay } from 'node:timers/promises';
import { movedBetween, readServerIdentity, type ServerIdentity } from '../database/server-identity.ts';
import type { Target } from '../database/target.ts';
import { messageOf, SafemigrateError } from '../errors.ts';
import type { Caveat, SchemaSection, StatementSection } from '../model/report.ts';
import { givenRelations } from '../observe/relation-names.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { Session } from '../postgres/connection/session.ts';
import { schemaWithoutSecrets } from '../postgres/sql/statement-secrets.ts';
import type { SchemaWatch } from '../schema/schema-watch.ts';
import { type Effects, effectsOf } from './effects.ts';
import type { GuardedWatch } from './guardrails/guarded-proxy.ts';
import type { TransactionWatch } from './own-transaction-ids.ts';

export interface TargetReading {
  readonly target: Target;
  readonly run: RunId;
  readonly audit: Audit;
  readonly proxy: GuardedWatch;
  readonly transactions: TransactionWatch;
  readonly schema: SchemaWatch;
  /** The server before the command. */
  readonly server: ServerIdentity;
}

/** State of the target after the command; a part that could not be read is null. */
export interface TargetAfter extends Effects {
  readonly statements: readonly StatementSection[];
  readonly schema: SchemaSection | null;
  /** Number of the command's sessions that still work. */
  readonly stillRunning: number;
  /** How the server differs from the one before the command. */
  readonly moved: string | null;
  /** The first failure of a read. */
  readonly unreadable: string | null;
  readonly caveats: readonly Caveat[];
}

/** Reads what the command has left in the target. Failures of the server are part of the result. */
export async function readTargetAfter(reading: TargetReading): Promise<TargetAfter> {
  const { proxy, transactions, schema } = reading;
  const reader = await connectAgain(reading);
  const stillRunning = await reader.read((session) => sessionsLeft(session, transactions.pids), 0);
  const moved = await reader.read((session) => hasMoved(session, reading.server), null);
  const tree = await reader.read((session) => givenRelations(session, proxy.lockedRelations()), new Map());
  const seen = await proxy.statements({ tree });
  // Another server does not know these transactions.
  const fatesHere = moved === null ? await reader.read((session) => transactions.fates(session), null) : null;
  const fates = fatesHere ?? (await transactions.fates(null));
  const effectsHere = await reader.read((session) => effectsOf(seen, fates, session), null);
  const effects = effectsHere ?? (await effectsOf(seen, fates, null));
  const compared = await reader.read(() => schema.after({ inUse: true }), null);
  await reader.close();
  return {
    ...effects,
    statements: seen.statements,
    schema: compared && schemaWithoutSecrets(compared.section),
    stillRunning,
    moved,
    unreadable: reader.problem,
    caveats: [...seen.caveats, ...(compared?.caveats ?? [])],
  };
}

/** A session whose reads give a fallback if they fail. */
class TolerantReader {
  readonly #session: Session | null;
  #problem: string | null;

  constructor(session: Session | null, problem: string | null) {
    this.#session = session;
    this.#problem = problem;
  }

  /** The first failure. */
  get problem(): string | null {
    return this.#problem;
  }

  async read<T, Fallback>(work: (session: Session) => Promise<T>, fallback: Fallback): Promise<T | Fallback> {
    if (this.#session === null) return fallback;
    try {
      return await work(this.#session);
    } catch (error) {
      this.#problem ??= messageOf(error);
      return fallback;
    }
  }

  async close(): Promise<void> {
    await this.#session?.close();
  }
}

/** How long a server may take to restart. */
const RESTART_MS = 30_000;
const RETRY_MS = 250;

async function connectAgain({ target, run, audit }: TargetReading): Promise<TolerantReader> {
  const deadline = performance.now() + RESTART_MS;
  for (;;) {
    try {
      const session = await openSession(target.settings, { purpose: 'after', run, audit, readOnly: true });
      return new TolerantReader(session, null);
    } catch (error) {
      const mayPass = error instanceof SafemigrateError && ['CONNECTION', 'LOST'].includes(error.code);
      if (!mayPass || performance.now() > deadline) return new TolerantReader(null, messageOf(error));
      await delay(RETRY_MS);
    }
  }
}

async function hasMoved(session: Session, before: ServerIdentity): Promise<string | null> {
  return movedBetween(before, await readServerIdentity(session)) ?? null;
}

// A role that may not see another's session gets NULL for its start.
const LEFT = `
SELECT pg_catalog.count(*)::pg_catalog.int4 AS count FROM pg_catalog.pg_stat_activity
 WHERE pid = ANY ($1::pg_catalog.int4[]) AND (backend_start IS NULL OR backend_start < $2::pg_catalog.timestamptz)`;
const NOW = 'SELECT pg_catalog.clock_timestamp()::pg_catalog.text AS now';
const EXIT_MS = 5_000;
const POLL_MS = 25;

/** Counts the command's sessions that do not end: a backend without a client works on to the end of its statement. */
async function sessionsLeft(session: Session, pids: readonly number[]): Promise<number> {
  if (pids.length === 0) return 0;
  const [row] = await session.query<{ now: string }>(NOW);
  const deadline = performance.now() + EXIT_MS;
  for (;;) {
    const [left] = await session.query<{ count: number }>(LEFT, [pids, row?.now]);
    if (!left?.count || performance.now() > deadline) return left?.count ?? 0;
    await delay(POLL_MS);
  }
}
