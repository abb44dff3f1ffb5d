/** A statement of a mode, as its program sends it: with parameters, or with their values in the text. */
export interface SentStep {
  readonly do: 'run' | 'fail' | 'fetch';
  /** With `$1`, `$2`. */
  readonly sql: string;
  readonly values: readonly number[];
  readonly literal: string;
  /** The program fetches so many rows at a time, if its driver can, and pauses after the first part. */
  readonly size?: number;
}

export type Step =
  | SentStep
  | { readonly do: 'begin' | 'commit' | 'rollback' }
  /** The client does nothing meanwhile. */
  | { readonly do: 'pause'; readonly seconds: number }
  /** In one pipeline or batch, if the mode has one. */
  | { readonly do: 'together'; readonly steps: readonly SentStep[] };

/** What statements of a known cost take, and how a table is rewritten. */
export interface Cost {
  readonly seconds: number;
  /** Rows of the table that is rewritten. */
  readonly rows: number;
  /** The expression after USING; empty: the assignment cast. */
  readonly using: string;
}

/** Short, and without work for the processors: the sleeps are in the server. */
export const SHORT: Cost = {
  seconds: 0.06,
  rows: 100,
  using: `(total + (pg_sleep(0.002)::text = 'x')::int)`,
};

/** pg_sleep(1), and a rewrite of about five seconds of work. */
export const LONG: Cost = {
  seconds: 0.5,
  rows: 1_500_000,
  using: '(total + 0 * length(md5(repeat(total::text, 40))))',
};

/** Rows of each step; null: its tag has no count. */
export const ROWS: Readonly<Record<string, number | null>> = {
  sleep: 1,
  parse: 1,
  plan: 1,
  insert: 40,
  update: 30,
  delete: 20,
  rewrite: null,
  fail: null,
  alter: null,
  inside: 1,
  'update inside': 5,
  undone: 10,
  'first of three': 1,
  'second of three': 7,
  'third of three': 1,
  fetch: 12,
};

/** The functions of all steps. */
const FUNCTIONS = `
CREATE FUNCTION slow_constant(seconds float8) RETURNS int IMMUTABLE LANGUAGE plpgsql AS
  $$BEGIN PERFORM pg_sleep(seconds); RETURN 1; END$$;
CREATE FUNCTION slow_check(seconds float8) RETURNS boolean LANGUAGE plpgsql AS
  $$BEGIN PERFORM pg_sleep(seconds); RETURN true; END$$;
CREATE DOMAIN slow_number AS float8 CHECK (slow_check(VALUE));
CREATE TYPE slow_row AS (seconds slow_number);`;

/** Tables of the steps of all modes, which are known by their keys. */
export function tablesOf(keys: readonly string[], { rows }: Cost): string {
  return keys.reduce(
    (sql, key) => `${sql}
CREATE TABLE ${key}_big AS SELECT id, id AS total FROM generate_series(1, ${rows}) AS id;
CREATE TABLE ${key}_rows AS SELECT id, 0 AS n FROM generate_series(1, 200) AS id;
CREATE TABLE ${key}_undone AS SELECT id FROM generate_series(1, 200) AS id;
CREATE TABLE ${key}_held (id int);`,
    FUNCTIONS,
  );
}

/** What each mode of each driver does, in this order. */
export function stepsOf(key: string, { seconds, using }: Cost): Step[] {
  const step = (name: string, sql: string, ...values: number[]): SentStep => {
    const text = sql.replace(' ', ` /*${key}.${name}*/ `);
    return {
      do: 'run',
      sql: text,
      values,
      literal: text.replace(/\$(\d)/g, (_, number) => String(values[number - 1])),
    };
  };
  const sleep = (name: string, times: number) => step(name, 'SELECT pg_sleep($1)', seconds * times);
  const write = (name: string, sql: string, row: number) =>
    step(name, sql.replaceAll('<rows>', `${key}_rows`), row);
  return [
    sleep('sleep', 2),
    sleep('sleep', 1),
    sleep('sleep', 1.5),
    // The server converts the literal when it parses: in Parse, and so only once if it is prepared.
    ...twice(step('parse', `SELECT '(${seconds * 1.5})'::slow_row`)),
    // It evaluates an immutable function when it plans: in Bind.
    step('plan', `SELECT slow_constant(${seconds * 1.5})`),
    write('insert', 'INSERT INTO <rows> SELECT g, 0 FROM generate_series(301, $1::float8::int) AS g', 340),
    write('update', 'UPDATE <rows> SET n = n + 1 WHERE id <= $1::float8', 30.5),
    write('delete', 'DELETE FROM <rows> WHERE id BETWEEN 101 AND $1::float8', 120.5),
    step('rewrite', `ALTER TABLE ${key}_big ALTER COLUMN total TYPE bigint${using && ` USING ${using}`}`),
    { ...step('fail', `SELECT 1 / (pg_sleep($1)::text = 'never')::int`, seconds), do: 'fail' },
    { do: 'begin' },
    step('alter', `ALTER TABLE ${key}_held ADD COLUMN more int`),
    { do: 'pause', seconds },
    sleep('inside', 1),
    write('update inside', 'UPDATE <rows> SET n = n + 1 WHERE id <= $1::float8', 5.5),
    { do: 'commit' },
    { do: 'begin' },
    step('undone', `DELETE FROM ${key}_undone WHERE id <= $1::float8`, 10.5),
    { do: 'rollback' },
    {
      do: 'together',
      steps: [
        sleep('first of three', 1),
        write('second of three', 'UPDATE <rows> SET n = n + 1 WHERE id <= $1::float8', 7.5),
        sleep('third of three', 1.5),
      ],
    },
    {
      ...step('fetch', 'SELECT g, pg_sleep($1) FROM generate_series(1, 12) AS g', seconds / 5),
      do: 'fetch',
      size: 5,
    },
  ];
}

function twice<T>(step: T): [T, T] {
  return [step, step];
}
