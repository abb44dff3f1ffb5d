import { setTimeout as delay } from 'node:timers/promises';
import { encodeId, type FactBase } from '@supabase/pg-delta/core';
import { extract } from '@supabase/pg-delta/extract';
import type { Pool } from 'pg';
import { sqlstateOf } from '../errors.ts';
import type { Session } from '../target/session.ts';
import { type Identity, readIdentity } from './identity.ts';
import { readUnmodeled, type Unmodeled } from './unmodeled.ts';

/** All that is read of one schema at one moment. */
export interface Snapshot {
  readonly facts: FactBase;
  readonly identity: Identity;
  readonly unmodeled: Unmodeled;
}

const BEGIN = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY';
const BEGIN_UNDOING = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE';
// Names are printed as far as the search path does not find them: whoever reads must see the same.
const SEARCH_PATH = 'SET LOCAL search_path = pg_catalog';
const ROLLBACK = 'ROLLBACK';

const ATTEMPTS = 5;
const PAUSE_MS = 200;
/**
 * What reading the catalogue meets while others run DDL: the functions that print definitions look at the newest
 * state, not at the transaction's snapshot, and fail for an object that has just gone (XX000 and its like), or wait
 * for a lock until lock_timeout (55P03).
 */
const PASSING = new Set(['XX000', '55P03', '40001', '42704', '42P01', '42883', '42703', '3F000']);

/** Reads the schema of the session's database. Tried again a few times while others change it. */
export function takeSnapshot(session: Session): Promise<Snapshot> {
  return retried(() =>
    inTransaction(session, BEGIN, async () => {
      const identity = await readIdentity(session);
      const unmodeled = await readUnmodeled(session);
      return { identity, unmodeled, facts: await readFacts(session) };
    }),
  );
}

/**
 * Reads the schema as it would be after some statements, which are rolled back. Not tried again for what the
 * statements themselves raise.
 */
export function snapshotAfter(session: Session, statements: readonly string[]): Promise<Snapshot> {
  return inTransaction(session, BEGIN_UNDOING, async () => {
    for (const sql of statements) await session.query(sql);
    const identity = await readIdentity(session);
    const unmodeled = await readUnmodeled(session);
    return { identity, unmodeled, facts: await readFacts(session) };
  });
}

/** The identifiers of facts, in pg-delta's own spelling, that make up the content of a database's schema. */
export function rootsOf(facts: FactBase): { id: string; hash: string }[] {
  // Roles belong to the cluster: another database's migration may make one.
  const own = facts.roots().filter(({ id }) => id.kind !== 'role' && id.kind !== 'membership');
  return own.map(({ id }) => ({ id: encodeId(id), hash: facts.rollupOf(id) }));
}

async function readFacts(session: Session): Promise<FactBase> {
  const { factBase } = await extract(withinTransaction(session));
  return factBase;
}

/**
 * pg-delta opens and commits a transaction of its own on a client of a pool. Here it gets a client that is in a
 * transaction already, and its own BEGIN, COMMIT and ROLLBACK do nothing.
 */
function withinTransaction({ client }: Session): Pool {
  const query = (sql: string, values?: unknown[]) =>
    /^(begin|commit|rollback)\b/i.test(sql) ? Promise.resolve({ rows: [] }) : client.query(sql, values);
  return { connect: async () => ({ query, release: () => undefined }) } as unknown as Pool;
}

async function inTransaction<T>(session: Session, begin: string, read: () => Promise<T>): Promise<T> {
  await session.query(begin);
  try {
    await session.query(SEARCH_PATH);
    return await read();
  } finally {
    // A lost connection has rolled back by itself, and the failure that is under way says so.
    await session.query(ROLLBACK).catch(() => undefined);
  }
}

async function retried<T>(read: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await read();
    } catch (error) {
      if (attempt === ATTEMPTS || !PASSING.has(sqlstateOf(error) ?? '')) throw error;
      await delay(PAUSE_MS * attempt);
    }
  }
}
