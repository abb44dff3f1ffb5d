import { test } from 'vitest';
import { HarmlessJudge } from '../../src/boundary/harmless-judge.ts';
import { readServerCalls } from '../../src/boundary/read-server-calls.ts';
import { findUsesOf, readUnknownCode } from '../../src/boundary/read-unknown-code.ts';
import { parseText } from '../../src/postgres/sql/parse.ts';
import { scratch } from '../helpers/scratch.ts';
import { median, recordFigures } from './figures.ts';

const ROUNDS = 15;
const INSERTS = 5_000;

/** So many tables, each with a trigger, a view and functions. */
const schemaOf = (tables: number) =>
  Array.from(
    { length: tables },
    (_, n) => `
CREATE TABLE t${n} (id int PRIMARY KEY, total numeric DEFAULT 0 CHECK (total >= 0), updated_at timestamptz DEFAULT now());
CREATE VIEW v${n} AS SELECT id, total FROM t${n} WHERE total > 0;
CREATE FUNCTION touch${n}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN NEW.updated_at := now(); RETURN NEW; END $$;
CREATE TRIGGER touch BEFORE UPDATE ON t${n} FOR EACH ROW EXECUTE FUNCTION touch${n}();
CREATE FUNCTION sum${n}() RETURNS numeric LANGUAGE sql AS 'SELECT sum(total) FROM v${n}';
CREATE FUNCTION made${n}(name text) RETURNS void LANGUAGE plpgsql AS $$ BEGIN EXECUTE format('CREATE TABLE %I (id int)', name); END $$;`,
  ).join('\n');

const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const from = performance.now();
  await work();
  return performance.now() - from;
};

test('cost of the search for code that is not known to be harmless', async () => {
  const rows: Record<string, string | number>[] = [];
  for (const tables of [10, 300]) {
    const { session, drop } = await scratch(18, schemaOf(tables));
    const names = { target: 'shop', clone: 'clone' };
    const [known, refused]: [number[], number[]] = [[], []];
    for (let round = 0; round < ROUNDS; round++) {
      known.push(await timed(() => readUnknownCode(session)));
      refused.push(await timed(() => readServerCalls(session, names)));
    }
    rows.push(
      {
        what: `search for code that is not known to be harmless, ${tables} tables`,
        ms: Math.round(median(known)),
      },
      { what: `search for code that acts on the server, ${tables} tables`, ms: Math.round(median(refused)) },
    );
    if (tables > 10) rows.push(...(await judgeInserts(session)));
    await drop();
  }
  recordFigures('cost of the search for code that is not known to be harmless', rows, [
    `each table has a trigger, a view and three functions; medians of ${ROUNDS}`,
    'the first runs before the command and after it, the second only before it, if the clone is in the target’s server',
  ]);
}, 600_000);

async function judgeInserts(session: Awaited<ReturnType<typeof scratch>>['session']) {
  const code = await readUnknownCode(session);
  const judge = new HarmlessJudge(code, (added) => findUsesOf(session, code.names, added));
  const texts = Array.from({ length: INSERTS }, (_, n) => `INSERT INTO t1 (id, total) VALUES (${n}, ${n})`);
  const parsed = await Promise.all(
    texts.map(async (sql) => (await parseText(Buffer.from(sql)))?.[0] ?? null),
  );
  const rounds: number[] = [];
  for (let round = 0; round < ROUNDS; round++)
    rounds.push(
      await timed(async () => {
        for (const [n, sql] of texts.entries())
          await judge.judge({ session: 1, user: '', database: '', sql, parsed: parsed[n] ?? null }, true);
      }),
    );
  if (judge.notKnown !== undefined) throw new Error(judge.notKnown);
  return [{ what: `judgement of ${INSERTS} INSERTs, all together`, ms: Math.round(median(rounds)) }];
}
