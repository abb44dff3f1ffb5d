/** Tables in which migration tools record applied migrations; names without a schema. */
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

/** Keys, indexes and sequences have names made from their table and columns. */
const BELONGING = /_(?:[a-z]+_)??(?:pkey|pk|key|idx|index|seq)$/;

/** Tells if an object is such a table, or belongs to one. @param object a qualified name as in reports. */
export function isBookkeeping(object: string): boolean {
  const parts = object.split('.').map((part) => part.replaceAll('"', '').toLowerCase());
  return parts.some((part) => TABLES.has(part) || TABLES.has(part.replace(BELONGING, '')));
}
