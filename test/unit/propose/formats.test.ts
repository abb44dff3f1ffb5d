import { describe, expect, test } from 'vitest';
import { migrationFiles, type SaferMigration } from '../../../src/propose/formats/migration-files.ts';
import type { ToolFormat } from '../../../src/propose/formats/recorded-migration.ts';
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

  test('Python', async () => {
    const { 'a_safer_form.py': text = '' } = await written('alembic', 'a', {
      parts: [part(null, sql, 'SELECT\n1')],
    });
    expect(text).toContain(`cursor.execute(${JSON.stringify(sql)})`);
    expect(text).toContain('cursor.execute("""SELECT\n1""")');
  });
});

test('Drizzle sends each statement outside of the transaction of its migrations', async () => {
  const { '0004_names.sql': text = '' } = await written('drizzle', '0004_names', {
    parts: PARTS.slice(0, 3),
  });
  const statements = text.split('\n--> statement-breakpoint\n');
  expect(statements[0]).toMatch(/^-- Safer\n[\s\S]*\nCOMMIT;$/);
  expect(statements.slice(1)).toEqual([
    "SET lock_timeout = '2s';",
    'BEGIN;',
    'CREATE TABLE a ();',
    'CREATE TABLE b ();',
    'COMMIT;',
    '-- An index\nDO $$\nBEGIN\nEND $$;',
    'SET lock_timeout = 0;',
    'CREATE INDEX CONCURRENTLY i ON o (n);',
    "SET lock_timeout = '2s';",
    'RESET lock_timeout;',
    'BEGIN;\n',
  ]);
});
