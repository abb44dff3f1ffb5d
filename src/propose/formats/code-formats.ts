import { RESET_LOCK_TIMEOUT, statementsOfScript } from '../write-script.ts';
import { commented, type MigrationFiles, type SaferMigration } from './safer-migration.ts';

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

export function alembicFiles(migration: SaferMigration): MigrationFiles {
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

export function djangoFiles(migration: SaferMigration): MigrationFiles {
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

export function railsFiles(migration: SaferMigration): MigrationFiles {
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
