import { expect, test } from 'vitest';
import { nameOfStatement } from '../../../../src/postgres/sql/classify-statement.ts';
import { parseText } from '../../../../src/postgres/sql/parse.ts';
import { kindOf } from '../../../../src/postgres/sql/tree.ts';

async function read(sql: string) {
  return (await parseText(Buffer.from(sql)))?.map(({ node, from, to, newer }) => ({
    kind: kindOf(node),
    text: Buffer.from(sql).toString('utf8', from, to).trim(),
    newer,
  }));
}

test.each([
  ['REPACK', 'RepackStmt'],
  ['repack /* all */ (verbose, analyze) s."T" (a, b) using index "i x"', 'RepackStmt'],
  ['REPACK (CONCURRENTLY) t USING INDEX', 'RepackStmt'],
  ["WAIT FOR LSN '0/306EE20' WITH (MODE 'standby_flush', TIMEOUT '5s')", 'WaitStmt'],
  ['CHECKPOINT (MODE FAST, FLUSH_UNLOGGED)', 'CheckPointStmt'],
  ['CREATE PUBLICATION p FOR ALL SEQUENCES', 'CreatePublicationStmt'],
  ['CREATE PUBLICATION p FOR ALL TABLES, ALL SEQUENCES', 'CreatePublicationStmt'],
  ['CREATE PUBLICATION p FOR ALL SEQUENCES, ALL TABLES', 'CreatePublicationStmt'],
  ['CREATE PUBLICATION p FOR ALL TABLES EXCEPT (TABLE a, b)', 'CreatePublicationStmt'],
  ['SELECT a, count(*) FROM t GROUP BY ALL HAVING count(*) > 1', 'SelectStmt'],
  ['SELECT * FROM (SELECT a, sum(b) FROM t GROUP BY ALL) s', 'SelectStmt'],
  ['INSERT INTO t VALUES (1) ON CONFLICT (id) DO SELECT FOR UPDATE RETURNING *', 'InsertStmt'],
  ["UPDATE t FOR PORTION OF at FROM '2026-01-01' TO '2027-01-01' SET v = 1", 'UpdateStmt'],
  ["DELETE FROM t FOR PORTION OF at FROM '2026-01-01' TO NULL WHERE id = 1", 'DeleteStmt'],
])('%s is read as %s', async (sql, kind) => {
  expect(await read(sql)).toEqual([{ kind, text: sql, newer: true }]);
});

test('statements keep their places beside others', async () => {
  expect(await read("SELECT 'é;'; REPACK t USING INDEX i; -- REPACK u\nVACUUM t;")).toEqual([
    { kind: 'SelectStmt', text: "SELECT 'é;'", newer: true },
    { kind: 'RepackStmt', text: 'REPACK t USING INDEX i', newer: true },
    { kind: 'VacuumStmt', text: 'VACUUM t', newer: true },
  ]);
});

test('the node is the one that a parser of PostgreSQL 19 would write', async () => {
  const [statement] = (await parseText(Buffer.from('REPACK (CONCURRENTLY) s.t USING INDEX i'))) ?? [];
  expect(statement && nameOfStatement(statement.node)).toBe('REPACK');
  expect(statement?.node).toMatchObject({
    RepackStmt: {
      usingindex: true,
      relation: { relation: { schemaname: 's', relname: 't' } },
      params: [{ DefElem: { defname: 'concurrently' } }],
    },
  });
});

test.each([
  'REPACK t, u v',
  'INSERT INTO t VALUES (1) ON CONFLICT (id) DO SELECT WHERE f() RETURNING *',
  'UPDATE t FOR PORTION OF at FROM f() TO g() SET v = 1',
  'CREATE SUBSCRIPTION s SERVER other PUBLICATION p',
  "SELECT 'REPACK t",
])('%s is left to the server', async (sql) => {
  expect(await read(sql)).toBeUndefined();
});

test('what both grammars have is of neither', async () => {
  expect(await read('SELECT a FROM t GROUP BY ALL a')).toEqual([
    { kind: 'SelectStmt', text: 'SELECT a FROM t GROUP BY ALL a', newer: false },
  ]);
});
