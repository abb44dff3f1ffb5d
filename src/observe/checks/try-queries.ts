import { type FieldDef, Query, type QueryResult } from 'pg';
import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { type Plan, readPlan } from './plans.ts';

export interface SqlError {
  readonly sqlstate: string;
  readonly message: string;
}

/** What became of one query. */
export interface QueryTrial {
  readonly error: SqlError | null;
  /** Its generic plan, from version 16 on. */
  readonly plan: Plan | null;
  /** Why it could not be planned although it could be prepared: the table has no replica identity. */
  readonly planError?: SqlError | null;
  /** Names and types of the columns that it returns, as text to compare; null if it returns none, or failed. */
  readonly row: string | null;
}

/** What pg_stat_statements makes of `interval '1 day'` is no SQL any more: the same as a cast is. */
const TYPED_LITERAL = /\b(interval|date|time|timestamp|timestamptz)\s+(\$\d+)/gi;

/**
 * indeterminate_datatype: reported for a parameter once all the rest was understood, names and all. The literal that stood
 * in its place had no such trouble.
 */
const UNDERSTOOD = '42P18';

const GENERIC_PLAN_SINCE = 160_000;
/** Ours is pg_catalog; the application's is what the database and the role have. */
const OWN_PATH = 'RESET search_path';
const VERSION = "SELECT pg_catalog.current_setting('server_version_num')::int AS num";

/** A Parse message takes a single statement, and so cannot be made to run a second one. */
class Preparation extends Query {
  override submit: InstanceType<typeof Query>['submit'];
  constructor(text: string, done: (error: Error | undefined, result?: QueryResult) => void) {
    super({ text }, done);
    this.submit = (connection) => {
      connection.parse({ text, name: '', types: [] }, true);
      connection.describe({ type: 'S', name: '' }, true);
      connection.sync();
    };
  }
}

/**
 * Prepares each query, and plans it where the server can do that without values. None is run: a Parse message makes
 * a plan's input, EXPLAIN without ANALYZE a plan.
 * @param session `pipelined`, so that a thousand queries take the time of one round trip, not of thousands.
 */
export async function tryQueries(session: Session, queries: readonly string[]): Promise<QueryTrial[]> {
  await session.query(OWN_PATH);
  const [version] = await session.query<{ num: number }>(VERSION);
  const planned = (version?.num ?? 0) >= GENERIC_PLAN_SINCE;
  const prepare = (sql: string) =>
    outcomeOf<string>((settle) =>
      session.client.query(
        new Preparation(sql, (error, result) =>
          settle(error, error ? undefined : rowOf(result?.fields ?? [])),
        ),
      ),
    );
  // As a simple query, because the extended protocol wants values for its parameters. That takes several statements,
  // but a text that Parse took is a single one.
  const explain = (sql: string) =>
    outcomeOf<Plan>((settle) => {
      session.client.query<{ 'QUERY PLAN': unknown }>(`EXPLAIN (GENERIC_PLAN, FORMAT JSON) ${sql}`).then(
        ({ rows }) => settle(undefined, readPlan(rows[0]?.['QUERY PLAN'])),
        (error) => settle(error),
      );
    });

  const texts = queries.map((sql) => sql.replace(TYPED_LITERAL, '$2::$1'));
  const prepared = await Promise.all(texts.map(prepare));
  return await Promise.all(
    texts.map(async (sql, index): Promise<QueryTrial> => {
      const error = prepared[index]?.error ?? null;
      if (error && error.sqlstate !== UNDERSTOOD) return { error, plan: null, row: null };
      const row = prepared[index]?.value ?? null;
      if (!planned) return { error: null, plan: null, row };
      const { value, error: planError } = await explain(sql);
      return { error: null, plan: value ?? null, planError, row };
    }),
  );
}

/** The server compares the same of a prepared statement before it runs it again. */
function rowOf(fields: readonly FieldDef[]): string {
  return JSON.stringify(
    fields.map(({ name, dataTypeID, dataTypeModifier }) => [name, dataTypeID, dataTypeModifier]),
  );
}

/** Shutdown, crash, dropped database, lost connection, the timeouts of sessions. */
const ENDS_SESSION = /^(?:57P|08|25P0[34])/;

/** An error of the query's own is a result; that of a lost connection is thrown. */
function outcomeOf<T>(
  send: (settle: (error: unknown, value?: T) => void) => void,
): Promise<{ value?: T; error: SqlError | null }> {
  return new Promise((resolve, reject) => {
    send((error, value) => {
      if (!error) return resolve({ error: null, ...(value === undefined ? {} : { value }) });
      const sqlstate = sqlstateOf(error);
      if (sqlstate === undefined || ENDS_SESSION.test(sqlstate))
        return reject(
          new SafemigrateError('LOST', `The connection to the clone was lost: ${messageOf(error)}`, {
            cause: error,
          }),
        );
      resolve({ error: { sqlstate, message: messageOf(error) } });
    });
  });
}
