import { describe, expect, test } from 'vitest';
import type { StatementSection } from '../../../src/model/report.ts';
import { redacted, withoutLiterals, withoutStrings } from '../../../src/observe/redact.ts';

function failed(
  error: Pick<NonNullable<StatementSection['error']>, 'sqlstate' | 'message' | 'where' | 'hint'>,
): StatementSection {
  return {
    index: 1,
    session: 1,
    sql: "INSERT INTO t VALUES ('secret')",
    tag: null,
    rows: null,
    startedAt: '2026-01-01T00:00:00Z',
    durationMs: 1,
    transaction: 1,
    explicit: false,
    exactness: 'unknown',
    locks: null,
    rewrote: [],
    walBytes: null,
    error: {
      detail: 'Key (a)=(secret)',
      position: 23,
      internalQuery: "SELECT 'secret'",
      schema: 'public',
      table: 't',
      column: null,
      dataType: null,
      constraint: null,
      ...error,
    },
  };
}

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
    ["['secret'", '[?'],
  ])('keeps its names and loses its literals: %s', async (sql, shown) => {
    expect(await withoutLiterals(sql)).toBe(shown);
  });

  test('is left as it is if it is a note of ours', async () => {
    const sql = '[a text of 3000000 bytes]';
    const unfailed = failed({ sqlstate: '', message: '', where: null, hint: null });
    const sent = { ...unfailed, error: null, sql };
    const shown = await redacted([{ ...sent, note: 'unread' }, sent]);
    expect(shown.map((each) => each.sql)).toEqual([sql, '[a text of ? bytes]']);
  });

  test('keeps its numbers where it describes a schema', async () => {
    expect(await withoutStrings("ALTER TABLE t ADD a varchar(40) DEFAULT 'secret' -- as before")).toBe(
      'ALTER TABLE t ADD a varchar(40) DEFAULT ? -- as before',
    );
  });

  test.each([
    ['P0001', 'no such customer: secret', null, '…'],
    ['23514', 'no such customer: secret', 'PL/pgSQL function f() line 3 at RAISE', '…'],
    ['23514', 'new row violates check constraint "few"', null, 'new row violates check constraint "few"'],
    [
      '42601',
      `unterminated quoted string at or near "'secret"`,
      null,
      'unterminated quoted string at or near "?"',
    ],
    ['42601', 'syntax error at or near "TABEL"', null, 'syntax error at or near "TABEL"'],
  ])('an error %s with the message %j in %j says %j', async (sqlstate, message, where, shown) => {
    const [redactedStatement] = await redacted([failed({ sqlstate, message, where, hint: null })]);
    expect(redactedStatement?.error?.message).toBe(shown);
  });

  test.each([
    [
      '25P01',
      'SET LOCAL can only be used in transaction blocks',
      'SET LOCAL can only be used in transaction blocks',
    ],
    ['01000', 'no such customer: secret', '…'],
    ['22P02', 'no such customer: secret', '…'],
  ])('a warning %s with the message %j says %j', async (sqlstate, message, shown) => {
    const sent = failed({ sqlstate: '', message: '', where: null, hint: null });
    const [statement] = await redacted([{ ...sent, error: null, warnings: [{ sqlstate, message }] }]);
    expect(statement?.warnings).toEqual([{ sqlstate, message: shown }]);
  });

  test('tells of an error what it says of the schema, not of rows', async () => {
    const statement = failed({
      sqlstate: '22P02',
      message: 'invalid input syntax for type integer: "secret"',
      where: 'COPY t, line 1, column a: "secret"',
      hint: null,
    });
    const [shown] = await redacted([statement]);
    expect(JSON.stringify(shown)).not.toContain('secret');
    expect(shown?.error).toMatchObject({
      sqlstate: '22P02',
      message: 'invalid input syntax for type integer: "?"',
    });
  });
});
