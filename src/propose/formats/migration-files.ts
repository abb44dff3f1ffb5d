import { inBlock } from '../../postgres/sql/classify-statement.ts';
import { parseText } from '../../postgres/sql/parse.ts';
import { isGuard } from '../concurrent-forms.ts';
import {
  LOCK_TIMEOUT,
  NO_LOCK_TIMEOUT,
  RESET_LOCK_TIMEOUT,
  type ScriptPart,
  statementsOfScript,
} from '../write-script.ts';
import type { RecordedMigration, ToolFormat } from './recorded-migration.ts';

const WRITERS: Readonly<
  Record<ToolFormat, (migration: SaferMigration) => MigrationFiles | Promise<MigrationFiles>>
> = {
  prisma: prismaFiles,
  drizzle: drizzleFiles,
  flyway: flywayFiles,
  alembic: alembicFiles,
  django: djangoFiles,
  rails: railsFiles,
};

/** Writes a migration in the format of a tool: the texts of its files, by their paths. */
export async function migrationFiles(format: ToolFormat, migration: SaferMigration): Promise<MigrationFiles> {
  return WRITERS[format](migration);
}

/** A safer form that is to take a migration's place. */
export interface SaferMigration {
  readonly recorded: RecordedMigration;
  /** The script without what the tool records about itself. */
  readonly parts: readonly ScriptPart[];
  /** Lines for a comment. */
  readonly heading: readonly string[];
}

/** Texts by the paths of their files. */
type MigrationFiles = ReadonlyMap<string, string>;

/** Lines of a text as comments. */
export function commented(lines: readonly string[], sign: string): string[] {
  return lines.flatMap((text) => text.split(/\r\n?|\n/)).map((line) => `${sign} ${line}`.trimEnd());
}

/** One file, whose statements Flyway sends one after the other outside of a transaction. */
function flywayFiles({ recorded: { name }, parts, heading }: SaferMigration): MigrationFiles {
  const note = [`A database that has ${name} applied already needs its new checksum: flyway repair`];
  const blocks = [...parts, { comment: null, statements: [RESET_LOCK_TIMEOUT], begin: null }].map((part) => [
    ...commented(part.comment === null ? [] : [part.comment], '--'),
    ...statementsOfScript([part]).map((sql) => `${sql};`),
  ]);
  return new Map([
    [name, text([commented([...heading, ...note], '--'), ...blocks])],
    [`${name}.conf`, 'executeInTransaction=false\nplaceholderReplacement=false\n'],
  ]);
}

/**
 * One file, of which Drizzle sends each statement by itself. It runs all pending migrations in one transaction, which the first
 * statement ends; the last one begins the transaction in which Drizzle records the migration.
 */
function drizzleFiles({ recorded: { name }, parts, heading }: SaferMigration): MigrationFiles {
  const note = [
    `It has the name of the original, so that meta/_journal.json stays as it is, and a database that has ${name} applied already keeps it.`,
    'The COMMIT ends the transaction in which Drizzle runs all pending migrations, since an index cannot be built concurrently in one.',
    'If a statement fails, what stands before it is done: take that out of this file before you run it again.',
  ];
  const blocks = parts.flatMap(({ comment, ...part }) =>
    statementsOfScript([{ ...part, comment: null }]).map((sql, index) => [
      ...commented(comment === null || index > 0 ? [] : [comment], '--'),
      `${sql};`,
    ]),
  );
  const statements = [['COMMIT;'], ...blocks, [`${RESET_LOCK_TIMEOUT};`], ['BEGIN;']];
  const separated = statements.map((lines) => lines.join('\n')).join('\n--> statement-breakpoint\n');
  return new Map([[`${name}.sql`, text([commented([...heading, ...note], '--'), [separated]])]]);
}

/**
 * Prisma sends a file as one message, which is one transaction if nothing in it says otherwise: so what is refused in a transaction
 * gets a migration of its own, and other statements stand between BEGIN and COMMIT.
 */
async function prismaFiles({ recorded: { name }, parts, heading }: SaferMigration): Promise<MigrationFiles> {
  const files = await dividedByMessage(parts);
  const digits = String(files.length).length;
  const names = files.map((_, index) =>
    files.length === 1 ? name : `${name}_${String(index + 1).padStart(digits, '0')}`,
  );
  const note = [
    `In the order of their names: ${names.join(', ')}.`,
    `In a database that has ${name} applied already, mark each of them as applied: npx prisma migrate resolve --applied NAME`,
    'If a build fails, drop its INVALID index (DROP INDEX CONCURRENTLY) before you run it again: npx prisma migrate resolve --rolled-back NAME',
  ];
  return new Map(
    files.map((blocks, index) => [
      `${names[index]}/migration.sql`,
      text([
        index === 0 ? commented([...heading, ...note], '--') : [`-- ${index + 1} of ${files.length}`],
        ...blocks,
      ]),
    ]),
  );
}

type Lines = readonly string[];

/** Returns the blocks of each file. */
async function dividedByMessage(parts: readonly ScriptPart[]): Promise<Lines[][]> {
  const files: Lines[][] = [];
  let together: Lines[] = [];
  let timeout: string | null = null;
  const add = (comment: string | null, statements: Lines, begin = 'BEGIN') => {
    const limit = timeout === null ? [] : [timeout];
    const lines = [begin, ...limit, ...statements, 'COMMIT'].map((sql) => `${sql};`);
    together.push([...commented(comment === null ? [] : [comment], '--'), ...lines]);
  };
  for (const { comment, statements, begin } of parts) {
    if (begin !== null) {
      add(comment, statements, begin);
      continue;
    }
    for (const sql of statements) {
      if (sql === LOCK_TIMEOUT) timeout = sql.replace('SET', 'SET LOCAL');
      else if (sql === NO_LOCK_TIMEOUT) timeout = null;
      // It would be in the file before that of the build, which is not run again with it.
      else if (isGuard(sql)) continue;
      else if (await isForBlocks(sql)) add(comment, [sql]);
      else {
        if (together.length > 0) files.push(together);
        files.push([[...commented(comment === null ? [] : [comment], '--'), `${sql};`]]);
        together = [];
      }
    }
  }
  return together.length > 0 ? [...files, together] : files;
}

async function isForBlocks(sql: string): Promise<boolean> {
  const [statement] = (await parseText(Buffer.from(sql))) ?? [];
  const rule = statement && inBlock(statement.node);
  return rule === 'same' || rule === 'required';
}

const text = (blocks: readonly Lines[]) => `${blocks.map((lines) => lines.join('\n')).join('\n\n')}\n`;

// Migrations that are programs: they send one statement after the other, outside of a transaction, over one connection.

const SAME_NAME = 'A database that has the migration applied already keeps it: the name is the same.';

/** @param send writes what sends a statement. */
function body(
  { parts }: SaferMigration,
  sign: string,
  indent: string,
  send: (sql: string) => string,
): string {
  const lines = parts.flatMap((part) => [
    ...commented(part.comment === null ? [] : [part.comment], sign),
    ...statementsOfScript([part]).map(send),
  ]);
  return [...lines, send(RESET_LOCK_TIMEOUT)].map((line) => `${indent}${line}\n`).join('');
}

function head({ heading }: SaferMigration, sign: string, more: readonly string[]): string {
  return `${commented([...heading, ...more], sign).join('\n')}\n`;
}

function inPython(sql: string): string {
  return /\\|"""|"$/.test(sql) || !sql.includes('\n') ? JSON.stringify(sql) : `"""${sql}"""`;
}

function alembicFiles(migration: SaferMigration): MigrationFiles {
  const { name, previous } = migration.recorded;
  const file = `${head(migration, '#', [SAME_NAME])}
from alembic import op

revision = ${JSON.stringify(name)}
down_revision = ${previous === null ? 'None' : JSON.stringify(previous)}


def upgrade():
    with op.get_context().autocommit_block():
        cursor = op.get_bind().connection.cursor()
${body(migration, '#', '        ', (sql) => `cursor.execute(${inPython(sql)})`)}

def downgrade():
    raise NotImplementedError
`;
  return new Map([[`${name}_safer_form.py`, file]]);
}

function djangoFiles(migration: SaferMigration): MigrationFiles {
  const { name } = migration.recorded;
  const original = `_${name}`;
  const more = [
    `Rename the original to ${original}.py, which Django passes over: what it says of models and dependencies holds.`,
    SAME_NAME,
  ];
  const file = `${head(migration, '#', more)}
from importlib import import_module

from django.db import migrations

original = import_module(${JSON.stringify(`.${original}`)}, __package__).Migration


class Migration(migrations.Migration):
    atomic = False
    initial = original.initial
    dependencies = original.dependencies
    run_before = original.run_before
    replaces = original.replaces
    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    [
${body(migration, '#', ' '.repeat(24), (sql) => `${inPython(sql)},`)}                    ]
                ),
            ],
            state_operations=original.operations,
        ),
    ]
`;
  return new Map([[`${name}.py`, file]]);
}

function railsFiles(migration: SaferMigration): MigrationFiles {
  const { name } = migration.recorded;
  // Rails finds the class by the name of the file, and wants no name twice.
  const [own, file] = [`SaferForm${name}`, `${name}_safer_form${name}.rb`];
  // A heredoc keeps every character; its end stands at the beginning of a line.
  const send = (sql: string) => `execute <<-'END_OF_SQL'\n${sql}\nEND_OF_SQL`;
  const text = `${head(migration, '#', [SAME_NAME])}
class ${own} < ActiveRecord::Migration[ActiveRecord::Migration.current_version]
  disable_ddl_transaction!

  def up
${body(migration, '#', '    ', send)}  end

  def down
    raise ActiveRecord::IrreversibleMigration
  end
end
`;
  return new Map([[file, text]]);
}
