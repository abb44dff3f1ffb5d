import { alembicFiles, djangoFiles, railsFiles } from './code-formats.ts';
import type { ToolFormat } from './proposal-format.ts';
import type { MigrationFiles, SaferMigration } from './safer-migration.ts';
import { drizzleFiles, flywayFiles, prismaFiles } from './sql-formats.ts';

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
