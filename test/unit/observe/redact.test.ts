import { describe, expect, test } from 'vitest';
import { redacted, withoutLiterals } from '../../../src/observe/redact.ts';

describe('a statement for a report that leaves the house', () => {
  test.each([
    [
      "INSERT INTO t (a, b) VALUES (42, 'secret'), (-1.5e3, E'sec\\'ret')",
      'INSERT INTO t (a, b) VALUES (?, ?), (-?, ?)',
    ],
    [
      "SELECT $$secret$$, $x$secret$x$, B'101', X'ff', U&'secret', N'secret', $1",
      'SELECT ?, ?, ?, ?, ?, N?, $1',
    ],
    ["DO $$ BEGIN PERFORM 'secret'; END $$", 'DO ?'],
    ["UPDATE t SET b = 'secret' -- secret\n WHERE a = 1 /* secret */", 'UPDATE t SET b = ? \n WHERE a = ?'],
    ["ALTER TABLE \"t'1\" ADD COLUMN c2 text DEFAULT 'é'", 'ALTER TABLE "t\'1" ADD COLUMN c2 text DEFAULT ?'],
    ["SELECT 'not closed secret", '[a text that cannot be read as SQL]'],
    ['[a text of 3000000 bytes]', '[a text of 3000000 bytes]'],
  ])('keeps its names and loses its literals: %s', async (sql, shown) => {
    expect(await withoutLiterals(sql)).toBe(shown);
  });

  test('tells of an error what it says of the schema, not of rows', async () => {
    const statement = {
      index: 1,
      session: 1,
      sql: "INSERT INTO t VALUES ('secret')",
      tag: null,
      startedAt: '2026-01-01T00:00:00Z',
      durationMs: 1,
      rows: null,
      transaction: 1,
      explicit: false,
      exactness: 'unknown' as const,
      error: {
        sqlstate: '22P02',
        message: 'invalid input syntax for type integer: "secret"',
        detail: 'Key (a)=(secret)',
        hint: null,
        position: 23,
        where: 'COPY t, line 1, column a: "secret"',
        internalQuery: "SELECT 'secret'",
        schema: 'public',
        table: 't',
        column: null,
        dataType: null,
        constraint: null,
      },
      locks: null,
      rewrote: [],
      walBytes: null,
    };
    const [shown] = await redacted([statement]);
    expect(JSON.stringify(shown)).not.toContain('secret');
    expect(shown?.error).toMatchObject({
      sqlstate: '22P02',
      message: 'invalid input syntax for type integer: "?"',
    });
  });
});
