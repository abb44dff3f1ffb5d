import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import type { Client } from 'pg';
import type { ServerVersion } from '../../src/local-server/binaries.ts';
import type { StatementSection } from '../../src/model/statement-model.ts';
import { LOCK_MODES, type LockMode } from '../../src/postgres/lock-modes.ts';
import { DDL_SETUP } from '../postgres/proxy/ddl-corpus.ts';
import { type TemporaryDatabase, temporaryDatabase, withClient } from './database.ts';
import { LOCK_SETUP } from './lock-corpus.ts';
import { reportedStatements } from './reported-statements.ts';

/** `public.t ACCESS EXCLUSIVE`, sorted. */
export type NamedLocks = readonly string[];

interface Held {
  readonly shared: boolean;
  readonly relation: string;
  readonly mode: string;
}

const HELD = `
select l.database = 0 as shared, l.relation::int8 as relation, l.mode
  from pg_lock_status() l where l.pid = $1 and l.locktype = 'relation'`;

const NAMES = `
select c.oid::int8, format('%I.%I', n.nspname, c.relname) as name
  from pg_class c join pg_namespace n on n.oid = c.relnamespace`;

/** One statement of its way to the server; what it needs around it is there. */
export const WAYS: Readonly<Record<string, (url: string, sql: string) => Promise<unknown>>> = {
  simple: (url, sql) => withClient(url, (client) => client.query(sql)),
  extended: (url, sql) =>
    withClient(url, (client) => client.query({ text: sql, queryMode: 'extended' } as { text: string })),
  prepared: (url, sql) => withClient(url, (client) => client.query({ name: 'own', text: sql })),
  'several in one message': (url, sql) =>
    withClient(url, (client) => client.query(`select 1; ${sql}; select 2`)),
  'in a transaction': (url, sql) =>
    withClient(url, async (client) => {
      await client.query('begin');
      await client.query(sql);
      await client.query('commit');
    }),
  psql: async (url, sql) => {
    const text = sql.startsWith('copy other from') ? `\\${sql}` : sql;
    await promisify(execFile)('psql', ['-X', '-v', 'ON_ERROR_STOP=1', '-c', text, url]);
  },
};

/** A database in which each statement of the corpus can be tried. */
export function lockDatabase(version: ServerVersion): Promise<TemporaryDatabase> {
  return temporaryDatabase(version, { sql: DDL_SETUP + LOCK_SETUP });
}

/** What the statement holds at its end, as another session sees it while its transaction is open; null if it fails. */
export async function heldInTransaction(
  database: TemporaryDatabase,
  sql: string,
): Promise<NamedLocks | null> {
  return await withClient(database.url, (direct) =>
    withClient(database.url, async (watcher) => {
      const pid = await pidOf(direct);
      const before = await namesSeenBy(watcher);
      await direct.query('begin');
      try {
        await direct.query(sql);
        const held = (await watcher.query<Held>(HELD, [pid])).rows;
        return named(held, new Map([...before, ...(await namesSeenBy(direct))]));
      } catch {
        return null;
      } finally {
        await direct.query('rollback');
      }
    }),
  );
}

/** What the statement was seen to hold while it ran, by a session that looked all the time, in copies of the database. */
export async function heldOnTheWay(
  template: TemporaryDatabase,
  sql: string,
  repetitions: number,
): Promise<NamedLocks> {
  const seen = new Set<string>();
  for (let turn = 0; turn < repetitions; turn++) {
    const copy = await temporaryDatabase(template.version, { template: template.name });
    await withClient(copy.url, (direct) =>
      withClient(new URL('/postgres', copy.url).href, async (watcher) => {
        const pid = await pidOf(direct);
        const before = await namesSeenBy(direct);
        let running = true;
        const done = direct.query(sql).finally(() => {
          running = false;
        });
        while (running) {
          const { rows } = await watcher.query<Held>({ name: 'held', text: HELD, values: [pid] });
          // What the statement makes has no name yet, and is its own.
          for (const lock of named(rows, before)) if (!lock.startsWith('another ')) seen.add(lock);
        }
        await done;
      }),
    );
    await copy.drop();
  }
  return [...seen].sort();
}

/** What the report has of the statement, sent through the proxy into a copy of the database; null if it fails when sent so. */
export async function reportedLocks(
  template: TemporaryDatabase,
  sql: string,
  way: (url: string, sql: string) => Promise<unknown>,
): Promise<{ locks: NamedLocks | null; exactness: StatementSection['exactness'] | undefined } | null> {
  const copy = await temporaryDatabase(template.version, { template: template.name });
  try {
    const { statements } = await reportedStatements(copy, (url) => way(url, sql).then(() => {}));
    const own = statements.findLast((each) => !/^(?:select [12]|begin|commit|set .*)$/.test(each.sql));
    const locks = own?.locks?.map(({ relation, mode }) => `${tidy(relation)} ${mode}`) ?? null;
    return { locks: locks && [...new Set(locks)].sort(), exactness: own?.exactness };
  } catch {
    return null;
  } finally {
    await copy.drop();
  }
}

/** What is missing in the report, or too much. */
export const wrongLocks = {
  all: (expected: NamedLocks, reported: NamedLocks): string[] => [
    ...expected.filter((lock) => !reported.includes(lock)).map((lock) => `missing ${lock}`),
    ...reported.filter((lock) => !expected.includes(lock)).map((lock) => `too much: ${lock}`),
  ],
  /** A look in between sees only some locks; one that is as strong has to be reported, of relations of users. */
  seen: (seen: NamedLocks, reported: NamedLocks): string[] =>
    seen
      .filter((lock) => {
        const [relation, strength] = parts(lock);
        if (/^(?:pg_catalog|pg_toast|another relation)/.test(relation)) return false;
        return !reported.some((each) => parts(each)[0] === relation && parts(each)[1] >= strength);
      })
      .map((lock) => `missing ${lock}`),
};

function parts(lock: string): [relation: string, strength: number] {
  const [, relation = '', mode = ''] = /^(.*?) ([A-Z ]+)$/.exec(lock) ?? [];
  return [relation, LOCK_MODES.indexOf(mode as LockMode)];
}

function named(held: readonly Held[], names: ReadonlyMap<string, string>): string[] {
  const locks = held.map(({ relation, mode }) => {
    const words = mode
      .replace(/Lock$/, '')
      .replace(/([a-z])([A-Z])/g, '$1 $2')
      .toUpperCase();
    return `${tidy(names.get(String(relation)) ?? `relation ${relation}`)} ${words}`;
  });
  return [...new Set(locks)].sort();
}

/** What is made anew has another OID in each copy. */
function tidy(relation: string): string {
  return relation
    .replace(/^pg_temp_?\d*\./, 'pg_temp.')
    .replace(/(pg_toast|pg_temp)_\d+/, '$1_n')
    .replace(/^relation \d+$/, 'another relation');
}

async function pidOf(client: Client): Promise<number> {
  const { rows } = await client.query<{ pid: number }>('select pg_backend_pid() as pid');
  return rows[0]?.pid ?? 0;
}

async function namesSeenBy(client: Client): Promise<Map<string, string>> {
  const { rows } = await client.query<{ oid: string; name: string }>(NAMES);
  return new Map(rows.map(({ oid, name }) => [oid, name]));
}
