/** Tables in which migration tools note what they ran; a schema may stand before the name. */
const TABLES = new Set([
  '_prisma_migrations',
  '__drizzle_migrations',
  '__efmigrationshistory',
  '_sqlx_migrations',
  'alembic_version',
  'ar_internal_metadata',
  'databasechangelog',
  'databasechangeloglock',
  'django_migrations',
  'flyway_schema_history',
  'goose_db_version',
  'gorp_migrations',
  'knex_migrations',
  'knex_migrations_lock',
  'kysely_migration',
  'kysely_migration_lock',
  'migrations',
  'mikro_orm_migrations',
  'pgmigrations',
  'schema_info',
  'schema_migrations',
  'schema_version',
  'sequelizemeta',
  'typeorm_metadata',
]);

/** Keys, indexes and sequences are called after their table and columns. */
const BELONGING = /_(?:[a-z]+_)??(?:pkey|pk|key|idx|index|seq)$/;

/** @param object a qualified name as reports write it: of such a table, or of what belongs to one. */
export function isBookkeeping(object: string): boolean {
  const parts = object.split('.').map((part) => part.replaceAll('"', '').toLowerCase());
  return parts.some((part) => TABLES.has(part) || TABLES.has(part.replace(BELONGING, '')));
}
