/** Tables of a migration tool; names without a schema. */
interface ToolTables {
  /** Tables in which it records applied migrations; the first one has a row for each of them, or for the last one. */
  readonly own: readonly [history: string, ...others: string[]];
  /** Tables of the application with rows that the tool or its migrations look up. */
  readonly reads?: readonly string[];
}

/** By the names that `safemigrate init` gives the tools. */
const BY_TOOL = {
  Aerich: { own: ['aerich'] },
  Alembic: { own: ['alembic_version'] },
  'db-migrate': { own: ['migrations'] },
  dbmate: { own: ['schema_migrations'] },
  Diesel: { own: ['__diesel_schema_migrations'] },
  Django: { own: ['django_migrations'], reads: ['django_content_type', 'auth_permission'] },
  Drizzle: { own: ['__drizzle_migrations'] },
  Ecto: { own: ['schema_migrations'] },
  'Entity Framework': { own: ['__EFMigrationsHistory'] },
  Flyway: { own: ['flyway_schema_history'] },
  'golang-migrate': { own: ['schema_migrations'] },
  goose: { own: ['goose_db_version'] },
  Knex: { own: ['knex_migrations', 'knex_migrations_lock'] },
  Kysely: { own: ['kysely_migration', 'kysely_migration_lock'] },
  Liquibase: { own: ['databasechangelog', 'databasechangeloglock'] },
  MikroORM: { own: ['mikro_orm_migrations'] },
  'node-pg-migrate': { own: ['pgmigrations'] },
  pop: { own: ['schema_migration'] },
  Prisma: { own: ['_prisma_migrations'] },
  Rails: { own: ['schema_migrations', 'ar_internal_metadata'] },
  Sequel: { own: ['schema_info'] },
  Sequelize: { own: ['SequelizeMeta'] },
  'sql-migrate': { own: ['gorp_migrations'] },
  sqlx: { own: ['_sqlx_migrations'] },
  tern: { own: ['schema_version'] },
  TypeORM: { own: ['migrations', 'typeorm_metadata'] },
} as const satisfies Record<string, ToolTables>;

/** A migration tool whose tables are known. */
export type KnownTool = keyof typeof BY_TOOL;
export const KNOWN_TOOLS = Object.keys(BY_TOOL) as KnownTool[];

const ALL: readonly ToolTables[] = Object.values(BY_TOOL);
const lowerCase = (names: readonly string[]) => new Set(names.map((name) => name.toLowerCase()));
const TABLES = lowerCase(ALL.flatMap(({ own }) => own));
const HISTORIES = lowerCase(ALL.map(({ own }) => own[0]));
const READ = lowerCase(ALL.flatMap(({ reads = [] }) => reads));

/** The table with a row for each applied migration. */
export function historyTableOf(tool: KnownTool): string {
  return BY_TOOL[tool].own[0];
}

/** Tables whose rows a tool needs to continue after its last migration; none if the tool is not known. */
export function tablesToContinue(tool: string): readonly string[] {
  const { own = [], reads = [] } = (BY_TOOL as Readonly<Record<string, ToolTables>>)[tool] ?? {};
  return [...own, ...reads];
}

const lastName = (relation: string) => nameParts(relation).at(-1) ?? '';

/** Tells if a relation is a table with a row for each applied migration. @param relation a qualified name as in reports. */
export function isHistory(relation: string): boolean {
  return HISTORIES.has(lastName(relation));
}

/** Tells if a relation has rows that a tool needs to continue, and no data of the application. */
export function isToContinue(relation: string): boolean {
  return TABLES.has(lastName(relation)) || READ.has(lastName(relation));
}

/** Keys, indexes and sequences have names made from their table and columns. */
const BELONGING = /_(?:[a-z]+_)??(?:pkey|pk|key|idx|index|seq)$/;

/** Tells if an object is such a table, or belongs to one. @param object a qualified name as in reports. */
export function isBookkeeping(object: string): boolean {
  return nameParts(object).some((part) => TABLES.has(part) || TABLES.has(part.replace(BELONGING, '')));
}

function nameParts(object: string): string[] {
  return object.split('.').map((part) => part.replaceAll('"', '').toLowerCase());
}
