import { setTimeout as delay } from 'node:timers/promises';
import { sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import { without } from './affected-facts.ts';
import { type CatalogueIdentity, readIdentity } from './identity.ts';
import { extractFacts, type FactBase } from './pg-delta.ts';
import { leftOutOfPublications, readUnmodeled, type Unmodeled } from './unmodeled.ts';

/** All that is read of one schema at one moment. */
export interface Snapshot {
  /** Objects that pg-delta models. */
  readonly facts: FactBase;
  readonly identity: CatalogueIdentity;
  readonly unmodeled: Unmodeled;
}

const BEGIN = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY';
const BEGIN_UNDOING = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE';
const ROLLBACK = 'ROLLBACK';
// PostgreSQL qualifies the names that the search path does not find, so every reading needs the same path.
const SEARCH_PATH = 'SET LOCAL search_path = pg_catalog';

const ATTEMPTS = 5;
const PAUSE_MS = 200;
/**
 * Errors that reading the catalogue meets while others run DDL: the functions that print definitions read the newest
 * state, not the transaction's snapshot. They fail for an object that has just been dropped (XX000 and its like), or wait
 * for a lock until lock_timeout (55P03).
 */
const TRANSIENT = new Set(['XX000', '55P03', '40001', '42704', '42P01', '42883', '42703', '3F000']);

/** Reads the schema of the session's database. Retries a few times if others change the schema at the same time. */
export async function takeSnapshot(session: Session): Promise<Snapshot> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await inTransaction(session, BEGIN, () => readAll(session));
    } catch (error) {
      if (attempt === ATTEMPTS || !TRANSIENT.has(sqlstateOf(error) ?? '')) throw error;
      await delay(PAUSE_MS * attempt);
    }
  }
}

/**
 * Reads the schema as it would be after some statements, and rolls them back. Does not retry, since the statements
 * themselves may have raised the error.
 */
export function snapshotAfter(session: Session, statements: readonly string[]): Promise<Snapshot> {
  return inTransaction(session, BEGIN_UNDOING, async () => {
    for (const sql of statements) await session.query(sql);
    return await readAll(session);
  });
}

async function readAll(session: Session): Promise<Snapshot> {
  const facts = await extractFacts(session);
  const identity = await readIdentity(session);
  const unmodeled = await readUnmodeled(session);
  const wrong = leftOutOfPublications(unmodeled);
  return { facts: wrong.length === 0 ? facts : without(facts, wrong), identity, unmodeled };
}

async function inTransaction<T>(session: Session, begin: string, read: () => Promise<T>): Promise<T> {
  try {
    await session.queryAll([begin, SEARCH_PATH]);
    return await read();
  } finally {
    // A lost connection has rolled back by itself, and the error that is being thrown says so.
    await session.query(ROLLBACK).catch(() => undefined);
  }
}
