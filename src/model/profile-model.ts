import { z } from 'zod';
import { lockWaits } from './lock-waits.ts';
import { bytes, milliseconds, time } from './measures.ts';

/** Scans, and rows written, per second: the larger one of the sample and of the average over `averagedMs`. */
const perSecond = z.number().nonnegative().nullable();

/** Pages as in `pg_class.relpages`: at the last VACUUM or ANALYZE. */
const pages = z
  .int()
  .min(0)
  .max(2 ** 31 - 1);

/** Statistics that the planner takes from the catalogues, without any value. */
const plannerStatistics = z.object({
  /** Without TOAST. */
  pages: pages.min(1),
  /** Pages that an index-only scan need not read. */
  visiblePages: pages,
  /** `index` is quoted as in SQL, without its schema; `rows` are those that it has entries for. */
  indexes: z.array(
    z.object({
      /** Name of the index. */
      index: z.string(),
      /** Pages of the index. */
      pages,
      /** Rows that it has entries for, by the planner's estimate. */
      rows: z.number(),
    }),
  ),
  /** Columns that have statistics. */
  columns: z.array(
    z.object({
      /** Quoted as in SQL. */
      column: z.string(),
      /** Fraction of the rows in which the column is null. */
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

/** A table or materialized view, with its size and traffic. */
const profiledRelation = z.object({
  /** `public.orders`, quoted as in reports. */
  relation: z.string(),
  /** Kind of relation. */
  kind: z.enum(['table', 'partitioned table', 'materialized view']),
  /** With TOAST, without indexes; of a partitioned table, the sum of its partitions. */
  sizeBytes: bytes.nullable(),
  /** Size of its indexes; null: the role may not read it. */
  indexBytes: bytes.nullable(),
  /** The planner's estimate. null: it was never analysed. */
  rows: z.number().nonnegative().nullable(),
  /** Scans of the relation and its indexes per second; null: rates could not be read. */
  readsPerSecond: perSecond,
  /** Rows inserted per second; null: rates could not be read. */
  insertsPerSecond: perSecond,
  /** Rows inserted, updated and deleted. */
  writesPerSecond: perSecond,
  /** Role that owns it. */
  owner: z.string(),
  /** Privileges of other roles. */
  grants: z.array(
    z.object({
      /** Name of the role; `PUBLIC` for all. */
      role: z.string(),
      /** Privileges, such as `SELECT`. */
      privileges: z.array(z.string()),
    }),
  ),
  /** Absent in profiles of earlier versions, of partitioned and of small tables, and where the role may not read it. */
  planner: plannerStatistics.optional(),
});

/** Kinds of transactions, by the locks that they were seen to take (`--load`). */
const profiledShapes = z.object({
  /** Time for which the traffic was watched. */
  windowMs: milliseconds,
  /** Number of times that the locks were read. */
  readings: z.int(),
  /** Client sessions in the database. */
  clients: z.int(),
  /** Transactions of all kinds, also those that lock no table. */
  perSecond: z.number().nonnegative(),
  /** The kinds of transactions. */
  kinds: z.array(
    z.object({
      /** In the order in which the locks are taken. */
      steps: z.array(
        z.object({
          /** Quoted as in SQL. */
          relation: z.string(),
          /** Lock mode in PostgreSQL's words. */
          mode: z.string(),
          /** Rows that one transaction changes on average. */
          rows: z.number().nonnegative(),
        }),
      ),
      /** Transactions of this kind per second. */
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
  /** Schemas that have relations. */
  schemas: z.array(
    z.object({
      /** Name of the schema. */
      schema: z.string(),
      /** Tables, views, materialized views and foreign tables, without partitions and those of extensions. */
      relations: z.int(),
      /** The owner of most of them. */
      creator: z.string(),
      /** Number of relations on which a role other than the owner was granted a privilege. */
      granted: z.array(
        z.object({
          /** Name of the role. */
          role: z.string(),
          /** The privilege: `SELECT`, `INSERT`, `UPDATE` or `DELETE`. */
          privilege: z.string(),
          /** Number of relations. */
          relations: z.int(),
        }),
      ),
    }),
  ),
  /** Roles of `granted` that can log in or have members, and are no superusers; `has`: roles whose privileges they have. */
  roles: z.array(
    z.object({
      /** Name of the role. */
      role: z.string(),
      /** Names of the roles whose privileges it has. */
      has: z.array(z.string()),
    }),
  ),
  /** ALTER DEFAULT PRIVILEGES for tables; `schema` null: in all of them. */
  defaults: z.array(
    z.object({
      /** Role whose new tables get the privileges. */
      creator: z.string(),
      /** Name of the schema; null: all schemas. */
      schema: z.string().nullable(),
      /** Role that gets the privileges; `PUBLIC` for all. */
      role: z.string(),
      /** The privileges. */
      privileges: z.array(z.string()),
    }),
  ),
});

/**
 * Facts that `safemigrate profile` read of a production database, for rehearsals on smaller data: sizes, rates and texts, and no value
 * of any row.
 */
export const profileShape = z.object({
  /** The version of the format. Keys may be added within a version. */
  profile: z.literal(1),
  /** Time at which the profile was taken. */
  takenAt: time,
  /** Version of safemigrate that took it. */
  tool: z.string(),
  /** The server that it was taken from. */
  server: z.object({
    /** Version of PostgreSQL, as the server gives it. */
    version: z.string(),
    /** The same as a number: server_version_num. */
    versionNum: z.int(),
  }),
  /** The database that it was taken from. */
  database: z.object({
    /** Name of the database. */
    name: z.string(),
    /** Size of the database. */
    sizeBytes: bytes,
  }),
  /** Tables and materialized views of the database. */
  relations: z.array(profiledRelation),
  /** null: it could not be read; `unread` gives the reason. Absent in profiles of earlier versions. */
  access: profiledAccess.nullable().optional(),
  /** null: the statistics could not be read; `unread` gives the reason. */
  traffic: z
    .object({
      /** Time between the two readings of the statistics. */
      sampledMs: milliseconds,
      /** The time that the averages cover; null: rates come from the sample alone. */
      averagedMs: milliseconds.nullable(),
      /** Transactions of the database per second; null: rates could not be read. */
      transactionsPerSecond: perSecond,
      /** Sessions on the server. */
      sessions: z.object({
        /** Sessions that were open. */
        open: z.int(),
        /** max_connections. */
        max: z.int(),
        /** Connections that are not available to ordinary roles. */
        reserved: z.int(),
      }),
      /** Standbys of the server; null: the role may not see them. */
      standbys: z
        .array(
          z.object({
            /** application_name of the standby. */
            name: z.string(),
            /** It takes part in synchronous replication. */
            synchronous: z.boolean(),
            /** WAL that it had not replayed; null: it is not visible. */
            lagBytes: bytes.nullable(),
            /** Its replay lag; null: it is not visible, or the standby was idle. */
            lagMs: milliseconds.nullable(),
          }),
        )
        .nullable(),
      /** Names of replication slots without a consumer. */
      inactiveSlots: z.array(z.string()),
      /** Waits for locks on the server. Absent before PostgreSQL 19. */
      lockWaits: lockWaits.optional(),
    })
    .nullable(),
  /** Statements of pg_stat_statements, whose literals the server has replaced by `$1`, `$2`; null: they could not be read. */
  statements: z
    .object({
      /** The time since which calls have been counted; null: it is not the same for all, or not known. */
      countedSince: time.nullable(),
      /** Statements whose text has no literals. */
      texts: z.array(
        z.object({
          /** Text of the statement. */
          sql: z.string(),
          /** Number of calls; null: it is not known. */
          calls: z.int().nullable(),
          /** Calls per second since `countedSince`; null: the time is not known. */
          callsPerSecond: z.number().nullable(),
        }),
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
  /** Settings of the server that influence times and plans, by name. */
  settings: z.record(z.string(), z.string()),
  /** Free on the file system of the database; null if the role or this machine could not see it. */
  freeBytes: bytes.nullable(),
  /** Parts that could not be read, with the reason. */
  unread: z.array(
    z.object({
      /** The part that could not be read. */
      what: z.string(),
      /** The reason. */
      reason: z.string(),
    }),
  ),
  /** Protection against changes of the file. */
  seal: z.object({
    /** `hmac-sha256`: signed with a key. `sha256`: a checksum, which anybody can compute. */
    kind: z.enum(['hmac-sha256', 'sha256']),
    /** Signature or checksum, in hexadecimal digits. */
    value: z.string(),
  }),
});

export type ProfiledAccess = z.infer<typeof profiledAccess>;
export type ProfiledShapes = z.infer<typeof profiledShapes>;
export type Profile = z.infer<typeof profileShape>;
export type PlannerStatistics = z.infer<typeof plannerStatistics>;
export type ProfiledRelation = z.infer<typeof profiledRelation>;
