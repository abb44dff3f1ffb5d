import { z } from 'zod';
import { bytes, milliseconds, time } from './measures.ts';

/** Scans, and rows written, per second: the larger one of the sample and of the average over `averagedMs`. */
const perSecond = z.number().nonnegative().nullable();

/** As `pg_class.relpages`: at the last VACUUM or ANALYZE. */
const pages = z
  .int()
  .min(0)
  .max(2 ** 31 - 1);

/** What the planner takes from the catalogues, without any value. */
const plannerStatistics = z.object({
  /** Without TOAST. */
  pages: pages.min(1),
  /** Those of them that an index-only scan need not read. */
  visiblePages: pages,
  /** `index` is quoted as in SQL, without its schema; `rows` are those that it has entries for. */
  indexes: z.array(z.object({ index: z.string(), pages, rows: z.number() })),
  columns: z.array(
    z.object({
      /** Quoted as in SQL. */
      column: z.string(),
      nullFraction: z.number(),
      /** Average of a value, in bytes. */
      width: z.number(),
      /** The number of distinct values or, if negative, minus their share of the rows, as `pg_stats.n_distinct`. */
      distinct: z.number(),
      /** Between the order of the values and that of the rows on disk, from -1 to 1; null for types without an order. */
      correlation: z.number().nullable(),
    }),
  ),
});

const profiledRelation = z.object({
  /** `public.orders`, quoted as in reports. */
  relation: z.string(),
  kind: z.enum(['table', 'partitioned table', 'materialized view']),
  /** With TOAST, without indexes; of a partitioned table, the sum of its partitions. */
  sizeBytes: bytes.nullable(),
  indexBytes: bytes.nullable(),
  /** The planner's estimate. null: it was never analysed. */
  rows: z.number().nonnegative().nullable(),
  readsPerSecond: perSecond,
  insertsPerSecond: perSecond,
  /** Rows inserted, updated and deleted. */
  writesPerSecond: perSecond,
  owner: z.string(),
  grants: z.array(z.object({ role: z.string(), privileges: z.array(z.string()) })),
  /** Absent in profiles of earlier versions, of partitioned and of small tables, and where the role may not read it. */
  planner: plannerStatistics.optional(),
});

/** Kinds of transactions, by the locks that they were seen to take (`--load`). */
const profiledShapes = z.object({
  windowMs: milliseconds,
  /** Number of times that the locks were read. */
  readings: z.int(),
  /** Client sessions in the database. */
  clients: z.int(),
  /** Transactions of all kinds, also those that lock no table. */
  perSecond: z.number().nonnegative(),
  kinds: z.array(
    z.object({
      /** In the order in which the locks are taken. */
      steps: z.array(
        z.object({
          /** Quoted as in SQL. */
          relation: z.string(),
          mode: z.string(),
          /** Rows that one transaction changes on average. */
          rows: z.number().nonnegative(),
        }),
      ),
      perSecond: z.number().nonnegative(),
      /** From the first lock to the end of the transaction. */
      holdMs: milliseconds,
      /** Pairs of relations whose order was not seen. */
      unordered: z.array(z.tuple([z.string(), z.string()])),
    }),
  ),
});

/** Who may use the relations of a schema, and those that will be made in it. */
const profiledAccess = z.object({
  schemas: z.array(
    z.object({
      schema: z.string(),
      /** Tables, views, materialized views and foreign tables, without partitions and those of extensions. */
      relations: z.int(),
      /** The owner of most of them. */
      creator: z.string(),
      /** Number of relations on which a role other than the owner was granted a privilege. */
      granted: z.array(z.object({ role: z.string(), privilege: z.string(), relations: z.int() })),
    }),
  ),
  /** Those of `granted` that can log in or have members, and are no superusers; `has`: roles whose privileges they have. */
  roles: z.array(z.object({ role: z.string(), has: z.array(z.string()) })),
  /** ALTER DEFAULT PRIVILEGES for tables; `schema` null: in all of them. */
  defaults: z.array(
    z.object({
      creator: z.string(),
      schema: z.string().nullable(),
      role: z.string(),
      privileges: z.array(z.string()),
    }),
  ),
});

/**
 * What `safemigrate profile` read of a production database, for rehearsals on smaller data: sizes, rates and texts, and no value
 * of any row.
 */
export const profileShape = z.object({
  /** The version of the format. Keys may be added within a version. */
  profile: z.literal(1),
  takenAt: time,
  tool: z.string(),
  server: z.object({ version: z.string(), versionNum: z.int() }),
  database: z.object({ name: z.string(), sizeBytes: bytes }),
  relations: z.array(profiledRelation),
  /** null: it could not be read; `unread` gives the reason. Absent in profiles of earlier versions. */
  access: profiledAccess.nullable().optional(),
  /** null: the statistics could not be read; `unread` gives the reason. */
  traffic: z
    .object({
      sampledMs: milliseconds,
      /** The time that the averages cover; null: rates come from the sample alone. */
      averagedMs: milliseconds.nullable(),
      transactionsPerSecond: perSecond,
      sessions: z.object({ open: z.int(), max: z.int(), reserved: z.int() }),
      standbys: z
        .array(
          z.object({
            name: z.string(),
            synchronous: z.boolean(),
            lagBytes: bytes.nullable(),
            lagMs: milliseconds.nullable(),
          }),
        )
        .nullable(),
      inactiveSlots: z.array(z.string()),
    })
    .nullable(),
  /** Statements of pg_stat_statements, whose literals the server has replaced by `$1`, `$2`; null: they could not be read. */
  statements: z
    .object({
      countedSince: time.nullable(),
      texts: z.array(
        z.object({ sql: z.string(), calls: z.int().nullable(), callsPerSecond: z.number().nullable() }),
      ),
      /** Utility statements, which may contain literals. */
      utility: z.int(),
      /** Statements whose text the role may not see. */
      hidden: z.int(),
      /** Statements in which a literal was left. */
      withLiterals: z.int(),
    })
    .nullable(),
  /** null: traffic was not watched, or none was seen. Absent in profiles of earlier versions. */
  shapes: profiledShapes.nullable().optional(),
  settings: z.record(z.string(), z.string()),
  /** Free on the file system of the database; null if the role or this machine could not see it. */
  freeBytes: bytes.nullable(),
  /** What could not be read, with the reason. */
  unread: z.array(z.object({ what: z.string(), reason: z.string() })),
  seal: z.object({ kind: z.enum(['hmac-sha256', 'sha256']), value: z.string() }),
});

export type ProfiledAccess = z.infer<typeof profiledAccess>;
export type ProfiledShapes = z.infer<typeof profiledShapes>;
export type Profile = z.infer<typeof profileShape>;
export type PlannerStatistics = z.infer<typeof plannerStatistics>;
export type ProfiledRelation = z.infer<typeof profiledRelation>;
