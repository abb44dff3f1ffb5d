import { setTimeout as delay } from 'node:timers/promises';
import type { FactBase } from '@supabase/pg-delta/core';
import { sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import { literal } from '../postgres/sql/quote.ts';
import { againOf } from './affected-relations.ts';
import { lookAround } from './catalog-probe.ts';
import { type Answers, ask, askAll, isLarge, NO_ROWS, questionsTo, withoutJoins } from './extraction.ts';
import { type CatalogueIdentity, IDENTITY_BY_KIND, readIdentity, readIdentityAgain } from './identity.ts';
import { type Marks, marksFrom, marksQuestions, readMarks, touchedSince } from './relation-versions.ts';
import { readUnmodeled, UNMODELED, type Unmodeled } from './unmodeled.ts';
import { Work } from './work.ts';

/** All that is read of one schema at one moment. */
export interface Snapshot {
  readonly answers: Answers;
  readonly identity: CatalogueIdentity;
  readonly unmodeled: Unmodeled;
  /** For reading again what was touched; none of fewer relations than are worth it. */
  readonly marks: Marks | undefined;
}

/** One of two schemas that are compared, with the facts of what is looked at. */
export interface Side extends Omit<Snapshot, 'answers' | 'marks'> {
  readonly facts: FactBase;
}

const BEGIN = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY';
const BEGIN_UNDOING = 'BEGIN ISOLATION LEVEL REPEATABLE READ READ WRITE';
// Names are printed as far as the search path does not find them: whoever reads must see the same. With the default of
// 4 MB for a sort or a hash, joins of whole catalogues go through temporary files where there are 10,000 tables. Joins stay in
// the order in which they are written: looking for a better one of 20 takes longer than what most schemas gain by it.
const SETTINGS =
  "SET LOCAL search_path = pg_catalog; SET LOCAL work_mem = '32MB'; SET LOCAL join_collapse_limit = 1";
const ROLLBACK = 'ROLLBACK';

const ATTEMPTS = 5;
const PAUSE_MS = 200;
/**
 * What reading the catalogue meets while others run DDL: the functions that print definitions look at the newest
 * state, not at the transaction's snapshot, and fail for an object that has just gone (XX000 and its like), or wait
 * for a lock until lock_timeout (55P03).
 */
const PASSING = new Set(['XX000', '55P03', '40001', '42704', '42P01', '42883', '42703', '3F000']);

/** A second session in the same database, for reading to take less time. */
export interface Helper {
  /** Settles when the connection may be opened. */
  readonly room: Promise<unknown>;
  readonly open: () => Promise<Session>;
}

export interface Reading {
  readonly helper?: Helper | undefined;
  /** What was read of the same database before: of many relations only those are read again that were changed since. */
  readonly since?: Snapshot | undefined;
  /** So many relations, their indexes among them, have marks. Of fewer everything is read sooner than it is found out what was touched. */
  readonly many?: number;
  /** Called when the server has been asked for something that takes it long, and this thread has only to wait. */
  readonly meanwhile?: () => void;
}

/** Reads the schema of the session's database. Tried again a few times while others change it. */
export function takeSnapshot(session: Session, reading: Reading = {}): Promise<Snapshot> {
  return retried(() => inTransaction(session, BEGIN, () => readAll(session, reading)));
}

/**
 * Reads the schema as it would be after some statements, which are rolled back. Not tried again for what the
 * statements themselves raise.
 * @param since what was read of the same database before.
 */
export function snapshotAfter(
  session: Session,
  statements: readonly string[],
  since?: Snapshot,
): Promise<Snapshot> {
  return inTransaction(session, BEGIN_UNDOING, async () => {
    for (const sql of statements) await session.query(sql);
    return await readAll(session, { since });
  });
}

/** Small questions that one session asks at once; the other may take the next ones. */
const TOGETHER = 6;
const MANY = 500;
const COUNT = `select pg_catalog.count(*)::int as relations from pg_catalog.pg_class
  where relkind <> 't' and relnamespace <> 'pg_toast'::pg_catalog.regnamespace`;

async function readAll(
  session: Session,
  { helper, since, many = MANY, meanwhile }: Reading,
): Promise<Snapshot> {
  const work = new Work();
  const { questions: all, answers } = await questionsTo(session);
  const then = since?.marks;
  const looking = lookAround(
    session,
    [...all, ...IDENTITY_BY_KIND, ...UNMODELED],
    then && marksQuestions(then.version, then),
  );
  if (meanwhile) setImmediate(meanwhile);
  const { empty, linked, rows } = await looking;
  for (const sql of all) if (empty.has(sql)) answers.set(sql, NO_ROWS);
  const questions = all.filter((sql) => !empty.has(sql));
  const marksNow = then && marksFrom(rows, then.version);
  const touched = marksNow && (await touchedSince(session, then, since.identity, marksNow));
  const again = since && touched && againOf(since.answers, touched);
  // What takes longest comes first, from both ends: the dependencies, relations and what they consist of here, and there
  // what is ours. In the end neither session waits long for the other. What is small is asked together.
  const [large, small] = [questions.filter(isLarge), questions.filter((sql) => !isLarge(sql))];
  // pg-delta asks for the dependencies last.
  const told = [...large.slice(-1), ...large.slice(0, -1)].map((sql) =>
    work.add(async (asked) => {
      const part = again?.get(sql);
      const answer = await ask(asked, withoutJoins(part?.sql ?? sql, linked));
      answers.set(sql, part ? part.whole(answer) : answer);
    }),
  );
  for (let first = 0; first < small.length; first += TOGETHER) {
    const some = small.slice(first, first + TOGETHER);
    told.push(
      work.add(async (asked) => {
        for (const [index, answer] of (await askAll(asked, some)).entries())
          answers.set(some[index] ?? '', answer);
      }),
    );
  }
  const marks = since ? marksNow : work.add((asked) => marksOf(asked, many));
  const identity = work.add((asked) =>
    since && touched
      ? readIdentityAgain(asked, since.identity, { keys: touched.before.keys, now: touched.now }, empty)
      : readIdentity(asked, empty),
  );
  const unmodeled = work.add((asked) => readUnmodeled(asked, empty));

  const help = helper && lendHand(work, helper, await exportSnapshot(session));
  const taken = work.takeFromFront(session);
  await Promise.all([taken, help]);
  await Promise.all(told);
  return { answers, identity: await identity, unmodeled: await unmodeled, marks: await marks };
}

async function marksOf(session: Session, many: number): Promise<Marks | undefined> {
  const [count] = await session.query<{ relations: number }>(COUNT);
  return (count?.relations ?? 0) < many ? undefined : await readMarks(session);
}

/** Asked beforehand: a statement that is refused would end the transaction. */
const MAY_EXPORT = `select pg_catalog.has_function_privilege('pg_catalog.pg_export_snapshot()', 'execute') as may`;
const EXPORT = 'select pg_catalog.pg_export_snapshot() as snapshot';

async function exportSnapshot(session: Session): Promise<string | undefined> {
  const [privilege] = await session.query<{ may: boolean }>(MAY_EXPORT);
  if (!privilege?.may) return undefined;
  const [row] = await session.query<{ snapshot: string }>(EXPORT);
  return row?.snapshot;
}

/** Sees exactly what the first session sees. Where it is not let in, the first one does all of it. */
async function lendHand(work: Work, { room, open }: Helper, snapshot: string | undefined): Promise<void> {
  await Promise.race([room, work.allTaken]);
  if (work.isEmpty || snapshot === undefined) return;
  const session = await open().catch(() => undefined);
  if (!session) return;
  const begin = `${BEGIN}; SET TRANSACTION SNAPSHOT ${literal(snapshot)}`;
  await inTransaction(session, begin, () => work.takeFromBack(session)).catch(() => undefined);
  await session.close();
}

async function inTransaction<T>(session: Session, begin: string, read: () => Promise<T>): Promise<T> {
  try {
    await session.queryAll([begin, SETTINGS]);
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
