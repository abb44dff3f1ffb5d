import { writeFileSync } from 'node:fs';
import path from 'node:path';
import { expect, test } from 'vitest';
import type { Report, StatementSection } from '../../src/model/report.ts';
import { safemigrate, temporaryFolder } from '../helpers/cli.ts';
import { temporaryDatabase, withClient } from '../helpers/database.ts';
import { psqlCommand, rehearse } from '../helpers/rehearse.ts';
import { median, recordFigures } from './figures.ts';

const ROWS = Number(process.env.PROFILE_ROWS ?? 2_500_000);
const SHARE = 0.01;
const ROUNDS = 3;

const tables = (rows: number) => `
  CREATE TABLE customers (id bigint PRIMARY KEY, name text, email text);
  INSERT INTO customers SELECT n, 'customer ' || n, 'c' || n || '@example.org' FROM generate_series(1, ${rows / 10}) n;
  CREATE TABLE orders (id bigint PRIMARY KEY, customer_id bigint, total int, note text, created_at timestamptz);
  INSERT INTO orders SELECT n, 1 + (n::bigint * 7919) % ${rows / 10}, (n::bigint * 31) % 100000, md5(n::text),
         '2026-01-01'::timestamptz + n * interval '1 s' FROM generate_series(1, ${rows}) n;
  CREATE TABLE archive (LIKE orders);
  INSERT INTO archive SELECT * FROM orders WHERE id % 5 = 0;
  CREATE MATERIALIZED VIEW totals AS SELECT total % 1000 AS bucket, sum(total) FROM orders GROUP BY 1`;

/** What is done, and the statement; what the next ones do not need is undone. */
const EXAMPLES: readonly (readonly [kind: string | null, sql: string])[] = [
  ['CHECK', 'ALTER TABLE orders ADD CONSTRAINT positive CHECK (total >= 0)'],
  [null, 'ALTER TABLE orders ADD CONSTRAINT small CHECK (total < 1000000) NOT VALID'],
  ['VALIDATE', 'ALTER TABLE orders VALIDATE CONSTRAINT small'],
  ['SET NOT NULL', 'ALTER TABLE orders ALTER COLUMN note SET NOT NULL'],
  ['FOREIGN KEY', 'ALTER TABLE orders ADD CONSTRAINT buyer FOREIGN KEY (customer_id) REFERENCES customers'],
  ['CREATE INDEX', 'CREATE INDEX by_time ON orders (created_at)'],
  ['CREATE INDEX CONCURRENTLY', 'CREATE INDEX CONCURRENTLY by_customer ON orders (customer_id)'],
  ['UNIQUE', 'ALTER TABLE orders ADD CONSTRAINT once UNIQUE (created_at, id)'],
  ['REINDEX', 'REINDEX INDEX by_time'],
  ['REFRESH', 'REFRESH MATERIALIZED VIEW totals'],
  ['CREATE TABLE AS', 'CREATE TABLE kept AS SELECT * FROM orders'],
  ['UPDATE of a tenth', 'UPDATE archive SET total = total + 1 WHERE id % 50 = 0'],
  ['DELETE of a fifth', 'DELETE FROM archive WHERE id % 25 = 0'],
  ['type change', 'ALTER TABLE archive ALTER COLUMN total TYPE bigint'],
  ['volatile default', 'ALTER TABLE archive ADD COLUMN token uuid DEFAULT gen_random_uuid()'],
  ['identity', 'ALTER TABLE archive ADD COLUMN number bigint GENERATED ALWAYS AS IDENTITY'],
  ['stored column', 'ALTER TABLE orders ADD COLUMN bucket int GENERATED ALWAYS AS (total % 7) STORED'],
  ['VACUUM FULL', 'VACUUM FULL orders'],
  ['CLUSTER', 'CLUSTER orders USING orders_pkey'],
  ['SET UNLOGGED', 'ALTER TABLE orders SET UNLOGGED'],
  [null, 'ALTER TABLE orders RENAME COLUMN note TO remark'],
  [null, 'ALTER TABLE customers DROP COLUMN email'],
  [null, 'TRUNCATE archive'],
];

const found = (report: Report) =>
  report.hazards
    .map(({ code, severity, relation, statement }) => `${severity} ${code} ${relation} ${statement}`)
    .sort();

test(`a profile on 1 % of ${ROWS} rows`, async () => {
  const folder = temporaryFolder();
  const script = path.join(folder, 'migration.sql');
  writeFileSync(script, EXAMPLES.map(([, sql]) => `${sql};\n`).join(''));
  const command = psqlCommand('-f', script);
  const large = await temporaryDatabase(18, { sql: tables(ROWS) });
  const small = await temporaryDatabase(18, { sql: tables(ROWS * SHARE) });
  for (const { url } of [large, small]) await withClient(url, (client) => client.query('VACUUM ANALYZE'));
  const file = path.join(folder, 'production.profile.json');
  const taken = await safemigrate(['profile', '--url', large.url, '--out', file, '--window', '0']);
  expect(taken.exitCode, taken.stderr).toBe(0);

  // In turns: what else the machine does changes from one minute to the next.
  const guesses: Report[] = [];
  const truths: Report[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    guesses.push((await rehearse(small.url, command, { args: ['--profile', file] })).report);
    truths.push((await rehearse(large.url, command)).report);
  }

  const of = (report: Report, sql: string): StatementSection | undefined =>
    report.statements.find((statement) => statement.sql.replace(/;$/, '') === sql);
  const rows = EXAMPLES.flatMap(([kind, sql]) => {
    if (kind === null) return [];
    const guessed = guesses.map((report) => of(report, sql));
    const expectedMs = median(guessed.map((each) => each?.atProductionSize?.ms ?? each?.durationMs ?? 0));
    const [first] = guessed;
    const measuredMs = median(truths.map((report) => of(report, sql)?.durationMs ?? 0));
    const { lowMs = 0, highMs = 0 } = first?.atProductionSize ?? {};
    return [
      {
        kind,
        'on 1 %, ms': Math.round(median(guessed.map((each) => each?.durationMs ?? 0))),
        'foretold, ms': Math.round(expectedMs),
        'on all, ms': Math.round(measuredMs),
        'foretold / measured': (expectedMs / measuredMs).toFixed(2),
        'in the interval of the first': measuredMs >= lowMs && measuredMs <= highMs ? 'yes' : 'no',
      },
    ];
  });
  const [all, ...again] = truths.map(found);
  const lists = guesses.map(found);
  const difference = (list: readonly string[]) => [
    ...list.filter((each) => !all?.includes(each)).map((each) => `only foretold: ${each}`),
    ...(all ?? []).filter((each) => !list.includes(each)).map((each) => `not foretold: ${each}`),
  ];
  const differing = lists.map(difference);
  const close = rows.filter((row) => Math.abs(Number(row['foretold / measured']) - 1) <= 0.4).length;
  recordFigures(`a profile on 1 % of ${ROWS} rows, PostgreSQL 18`, rows, [
    `All times are medians of ${ROUNDS} rehearsals; ${close} of ${rows.length} are within 40 % of the measured ones.`,
    `Hazards on all of it: ${all?.length}, with code, severity, relation and statement; foretold differently in the ${ROUNDS} rehearsals: ${differing.map(({ length }) => length).join(', ')}; found differently in ${again.length} more on all of it: ${again.map((list) => difference(list).length).join(', ')}.`,
    ...new Set(differing.flat()),
  ]);
  expect(all?.length).toBeGreaterThan(20);
});
