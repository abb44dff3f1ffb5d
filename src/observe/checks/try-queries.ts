import type { FieldDef, QueryResult } from 'pg';
import { messageOf, SafemigrateError, sqlstateOf } from '../../errors.ts';
import { pg } from '../../postgres/connection/pg.ts';
import type { Session } from '../../postgres/connection/session.ts';

export interface SqlError {
  readonly sqlstate: string;
  readonly message: string;
}

/** Result of one query. */
export interface QueryTrial {
  readonly error: SqlError | null;
  /** Its generic plan. */
  readonly plan: Plan | null;
  /** The plan that production's sizes and statistics lead to, if there is a profile of it. */
  readonly productionPlan?: Plan | null;
  /** Why it could not be planned although it could be prepared: the table has no replica identity. */
  readonly planError?: SqlError | null;
  /** Names and types of the columns that it returns, as text to compare; null if it returns none, or failed. */
  readonly row: string | null;
}

/** pg_stat_statements turns `interval '1 day'` into `interval $1`, which is not valid SQL; a cast is. */
const TYPED_LITERAL = /\b(interval|date|time|timestamp|timestamptz)\s+(\$\d+)/gi;

/**
 * indeterminate_datatype: reported for a parameter once all the rest was understood, names and all. The literal that stood
 * in its place had no such trouble.
 */
const UNDERSTOOD = '42P18';

const GENERIC_PLAN_SINCE = 160_000;
/** Ours is pg_catalog; the application's is what the database and the role have. */
const OWN_PATH = 'RESET search_path';
const PREPARED = 'safemigrate_query_';
const GENERIC_PLANS = 'SET plan_cache_mode = force_generic_plan';
const COUNT_PARAMETERS = `
SELECT name, pg_catalog.cardinality(parameter_types) AS count FROM pg_catalog.pg_prepared_statements WHERE name ^@ '${PREPARED}'`;
const VERSION = "SELECT pg_catalog.current_setting('server_version_num')::int AS num";

/** A Parse message takes a single statement, and so cannot be made to run a second one. */
class Preparation extends pg.Query {
  override submit: InstanceType<typeof pg.Query>['submit'];
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
 * Prepares each query, and plans it without values. None is run: a Parse message makes a plan's input, EXPLAIN without ANALYZE a plan.
 * @param session `pipelined`, so that a thousand queries take the time of one round trip, not of thousands.
 */
export async function tryQueries(session: Session, queries: readonly string[]): Promise<QueryTrial[]> {
  await session.query(OWN_PATH);
  const prepare = (sql: string) =>
    outcomeOf<string>((settle) =>
      session.client.query(
        new Preparation(sql, (error, result) =>
          settle(error, error ? undefined : rowOf(result?.fields ?? [])),
        ),
      ),
    );
  const texts = queries.map(preparable);
  const prepared = await Promise.all(texts.map(prepare));
  const understood = texts.filter((_, index) => isUnderstood(prepared[index]?.error));
  const plans = new Map<string, Planned>();
  for (const [index, plan] of (await planQueries(session, understood)).entries())
    plans.set(understood[index] ?? '', plan);
  return texts.map((sql, index): QueryTrial => {
    const error = prepared[index]?.error ?? null;
    if (!isUnderstood(error)) return { error, plan: null, row: null };
    const { value = null, error: planError = null } = plans.get(sql) ?? {};
    return { error: null, plan: value, planError, row: prepared[index]?.value ?? null };
  });
}

function preparable(sql: string): string {
  return sql.replace(TYPED_LITERAL, '$2::$1');
}

function isUnderstood(error: SqlError | null | undefined): boolean {
  return !error || error.sqlstate === UNDERSTOOD;
}

interface Planned {
  readonly value?: Plan;
  readonly error: SqlError | null;
}

/** Plans each without values, with the search_path of the database and the role. @param queries each a single statement that could be prepared. */
export async function planQueries(session: Session, queries: readonly string[]): Promise<Planned[]> {
  await session.query(OWN_PATH);
  const [version] = await session.query<{ num: number }>(VERSION);
  const explain = (version?.num ?? 0) >= GENERIC_PLAN_SINCE ? explainEach : explainPrepared;
  return explain(session, queries.map(preparable));
}

/**
 * Sends simple queries, because the extended protocol wants values for the parameters. Those take several statements, but a text that
 * Parse took is a single one.
 */
function explainEach(session: Session, texts: readonly string[]): Promise<Planned[]> {
  return Promise.all(texts.map((sql) => planOf(session, `EXPLAIN (GENERIC_PLAN, FORMAT JSON) ${sql}`)));
}

/** A domain refuses NULL, which is sent for each parameter, and the application would not send. */
const NULL_REFUSED = '23502';

/** The same before version 16: a prepared statement has a generic plan, which values do not change. */
async function explainPrepared(session: Session, texts: readonly string[]): Promise<Planned[]> {
  await session.query(GENERIC_PLANS);
  const made = await Promise.all(
    texts.map((sql, index) =>
      outcomeOf<true>((settle) => {
        session.client
          .query(`PREPARE ${PREPARED}${index} AS ${sql}`)
          .then(() => settle(undefined, true), settle);
      }),
    ),
  );
  const counted = await session.query<{ name: string; count: number }>(COUNT_PARAMETERS);
  const counts = new Map(counted.map(({ name, count }) => [name, count]));
  const plans = await Promise.all(
    made.map(async ({ error }, index): Promise<Planned> => {
      if (error) return { error };
      const name = `${PREPARED}${index}`;
      const values = Array(counts.get(name) ?? 0).fill('NULL');
      const call = values.length === 0 ? name : `${name} (${values.join(', ')})`;
      const planned = await planOf(session, `EXPLAIN (FORMAT JSON) EXECUTE ${call}`);
      return planned.error?.sqlstate === NULL_REFUSED ? { error: null } : planned;
    }),
  );
  await session.query('DEALLOCATE ALL');
  return plans;
}

function planOf(session: Session, sql: string): Promise<Planned> {
  return outcomeOf<Plan>((settle) => {
    session.client.query<{ 'QUERY PLAN': unknown }>(sql).then(
      ({ rows }) => settle(undefined, readPlan(rows[0]?.['QUERY PLAN'])),
      (error) => settle(error),
    );
  });
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

/** A node of a plan as EXPLAIN (FORMAT JSON) writes it, as far as it is read here. */
export interface Plan {
  readonly type: string;
  readonly relation: string | null;
  readonly index: string | null;
  /** How the query calls the relation. */
  readonly alias: string | null;
  /** In the planner's units. */
  readonly totalCost: number;
  readonly inputs: readonly Plan[];
}

/** @param value what EXPLAIN (FORMAT JSON) returned; undefined where that is not a plan. */
export function readPlan(value: unknown): Plan | undefined {
  const [first] = Array.isArray(value) ? value : [];
  return isRecord(first) && isRecord(first.Plan) ? nodeOf(first.Plan) : undefined;
}

function nodeOf(node: Record<string, unknown>): Plan {
  const text = (key: string) => (typeof node[key] === 'string' ? node[key] : null);
  return {
    type: text('Node Type') ?? '',
    relation: text('Relation Name'),
    index: text('Index Name'),
    alias: text('Alias'),
    totalCost: Number(node['Total Cost'] ?? 0),
    inputs: Array.isArray(node.Plans) ? node.Plans.filter(isRecord).map(nodeOf) : [],
  };
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

/** Returns the names of the relations that a plan reads or writes, without their schemas. */
export function relationsIn(plan: Plan): string[] {
  return flat(plan).flatMap(({ relation }) => relation ?? []);
}

/**
 * Where two plans of the same query part: the relation that is read in another way, the dearest of several; else the
 * first node from the top that is of another kind. null for plans of one shape.
 */
export function changedNode(before: Plan, after: Plan): ReturnType<typeof parting> {
  const then = flat(before);
  const scans = flat(after)
    .filter(({ alias }) => alias !== null)
    .flatMap((node) => {
      const was = then.find(({ alias }) => alias === node.alias);
      return was && wordsOf(was) !== wordsOf(node) ? [{ was, node }] : [];
    })
    .sort((one, other) => other.node.totalCost - one.node.totalCost);
  const [dearest] = scans;
  if (dearest) return { before: wordsOf(dearest.was), after: wordsOf(dearest.node) };
  return parting(before, after);
}

function parting(before: Plan, after: Plan): { before: string; after: string } | null {
  if (wordsOf(before) !== wordsOf(after)) return { before: wordsOf(before), after: wordsOf(after) };
  for (const [index, node] of after.inputs.entries()) {
    const was = before.inputs[index];
    const found = was ? parting(was, node) : null;
    if (found) return found;
  }
  return null;
}

function flat(plan: Plan): Plan[] {
  return [plan, ...plan.inputs.flatMap(flat)];
}

function wordsOf({ type, relation, index }: Plan): string {
  const using = index === null ? '' : ` using ${index}`;
  return `${type}${using}${relation === null ? '' : ` on ${relation}`}`;
}
