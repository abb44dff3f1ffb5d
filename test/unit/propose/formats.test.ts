import { describe, expect, test } from 'vitest';
import { migrationFiles } from '../../../src/propose/formats/migration-files.ts';
import type { ToolFormat } from '../../../src/propose/formats/proposal-format.ts';
import type { SaferMigration } from '../../../src/propose/formats/safer-migration.ts';
import { LOCK_TIMEOUT, NO_LOCK_TIMEOUT, type ScriptPart } from '../../../src/propose/write-script.ts';

const part = (comment: string | null, ...statements: string[]): ScriptPart => ({
  comment,
  statements,
  begin: null,
});

const PARTS = [
  part(null, LOCK_TIMEOUT),
  { comment: null, statements: ['CREATE TABLE a ()', 'CREATE TABLE b ()'], begin: 'BEGIN' },
  part(
    'An index',
    'DO $$\nBEGIN\nEND $$',
    NO_LOCK_TIMEOUT,
    'CREATE INDEX CONCURRENTLY i ON o (n)',
    LOCK_TIMEOUT,
  ),
  part(null, 'ALTER TABLE o VALIDATE CONSTRAINT c'),
];

async function written(format: ToolFormat, name: string, more: Partial<SaferMigration> = {}) {
  const recorded = { name, previous: null };
  const files = await migrationFiles(format, {
    recorded,
    parts: PARTS,
    heading: ['Safer'],
    isModule: true,
    ...more,
  });
  return Object.fromEntries(files);
}

test('Prisma gets a migration of its own for what is refused in a transaction', async () => {
  const files = await written('prisma', '20260301_names');
  expect(Object.keys(files)).toEqual([1, 2, 3].map((number) => `20260301_names_${number}/migration.sql`));
  const [first, second, third] = Object.values(files);
  expect(first).toContain(
    "BEGIN;\nSET LOCAL lock_timeout = '2s';\nCREATE TABLE a ();\nCREATE TABLE b ();\nCOMMIT;\n\n-- An index\nBEGIN;\nSET LOCAL",
  );
  expect(second).toBe('-- 2 of 3\n\n-- An index\nCREATE INDEX CONCURRENTLY i ON o (n);\n');
  expect(third).toMatch(
    /BEGIN;\nSET LOCAL lock_timeout = '2s';\nALTER TABLE o VALIDATE CONSTRAINT c;\nCOMMIT;\n$/,
  );
});

test('Prisma keeps the name if all of it may be in one message', async () => {
  const files = await written('prisma', 'names', { parts: PARTS.slice(0, 2) });
  expect(Object.keys(files)).toEqual(['names/migration.sql']);
});

test('Rails sends each statement outside of a transaction', async () => {
  expect(await written('rails', '20260301090000', { parts: PARTS.slice(2, 3) })).toMatchInlineSnapshot(`
    {
      "20260301090000_safer_form20260301090000.rb": "# Safer
    # A database that has the migration applied already keeps it: the name is the same.

    class SaferForm20260301090000 < ActiveRecord::Migration[ActiveRecord::Migration.current_version]
      disable_ddl_transaction!

      def up
        # An index
        execute <<-'END_OF_SQL'
    DO $$
    BEGIN
    END $$
    END_OF_SQL
        execute <<-'END_OF_SQL'
    SET lock_timeout = 0
    END_OF_SQL
        execute <<-'END_OF_SQL'
    CREATE INDEX CONCURRENTLY i ON o (n)
    END_OF_SQL
        execute <<-'END_OF_SQL'
    SET lock_timeout = '2s'
    END_OF_SQL
        execute <<-'END_OF_SQL'
    RESET lock_timeout
    END_OF_SQL
      end

      def down
        raise ActiveRecord::IrreversibleMigration
      end
    end
    ",
    }
  `);
});

describe('a statement stays as it is in', () => {
  const sql = `SELECT '\${a} \`b\` \\d """' AS "it"`;

  test('JavaScript', async () => {
    const { 'a.cjs': text = '' } = await written('knex', 'a.cjs', { parts: [part(null, sql)] });
    const literal = /query\((`.*`)\);\n.*RESET/.exec(text)?.[1] ?? '';
    expect(new Function(`return ${literal}`)()).toBe(sql);
    expect(text).toContain('exports.config = { transaction: false };');
  });

  test('Python', async () => {
    const { 'a_safer_form.py': text = '' } = await written('alembic', 'a', {
      parts: [part(null, sql, 'SELECT\n1')],
    });
    expect(text).toContain(`cursor.execute(${JSON.stringify(sql)})`);
    expect(text).toContain('cursor.execute("""SELECT\n1""")');
  });
});

test.each([
  ['knex', 'a.js', true, /^export const up/m],
  ['knex', 'a.js', false, /^exports\.up/m],
  ['knex', 'a.ts', false, /^\/\/ @ts-nocheck\n[\s\S]*^export const up/m],
  ['node-pg-migrate', 'a', false, /^exports\.up = \(pgm\) => \{\n {2}pgm\.noTransaction/m],
] as const)('%s writes %s for its kind of modules (%s)', async (format, name, isModule, pattern) => {
  expect(Object.values(await written(format, name, { isModule }))[0]).toMatch(pattern);
});
