import { z } from 'zod';
import { bytes, milliseconds, time } from './measures.ts';

/** The run that made this report. */
export const runSection = z.object({
  /** Run id: short, unique and sortable by time. Names of clones and kept originals end in it. */
  id: z.string(),
  /** Start of the run. */
  startedAt: time,
  /** End of the run, after everything was released. */
  finishedAt: time,
  /** The request: a rehearsal alone, or also an apply or a swap. */
  mode: z.enum(['rehearse', 'apply', 'swap']),
  /** Literals, values and hosts are hidden (`--redact`, and in formats for others): `?` stands for a literal in SQL. Absent: they are not. */
  redacted: z.literal(true).optional(),
  /** The program that made the report. */
  tool: z.object({
    /** Name of the program. */
    name: z.literal('safemigrate'),
    /** Version of the program. */
    version: z.string(),
  }),
});

/** The database that the migration is for. */
export const targetSection = z.object({
  /** Host name, address, or folder of the Unix socket. */
  host: z.string(),
  /** Port of the server. */
  port: z.int(),
  /** Name of the database. */
  database: z.string(),
  /** Version of PostgreSQL there, as the server gives it. */
  serverVersion: z.string(),
  /** Size of the database before the command, as pg_database_size gives it. */
  sizeBytes: bytes,
  /** Where the connection came from: `--url`, `DATABASE_URL`, … */
  source: z.string(),
  /** A dump that took the target's place (`--dump`), or a database; absent from reports of versions that did not say. */
  origin: z.enum(['database', 'dump']).optional(),
  /**
   * Hashes of the initial settings of a session that may give its statements another meaning: `search_path of the database`,
   * `… of the role`, `… of the server`. An apply compares them. Absent from reports of earlier versions.
   */
  sessionSettings: z.record(z.string(), z.string()).optional(),
  /** Changes that the command or other sessions made on the target during the run. */
  changes: z.array(
    z.object({
      /** The change, in words. */
      what: z.string(),
      /**
       * Made while the command ran, by the command or by others. `unknown`: no other session was seen, and a person must look.
       * `unproved`: others were active and may well have made it, so that it is not held against the command.
       */
      madeBy: z.enum(['command', 'others', 'unknown', 'unproved']),
      /** The reason why the change is attributed to them. */
      evidence: z.string(),
    }),
  ),
  /**
   * The command left the target as it was: `true` if that is proved, `false` if the command, or an unknown author,
   * changed it, `null` if neither is proved; `caveats` gives the reasons.
   */
  unchanged: z.boolean().nullable(),
  /**
   * Sessions that came to the target while the command could have connected, by whose they were. `others`: seen to be somebody
   * else's; `unexplained`: only counted by the server. null: not known.
   */
  sessions: z
    .object({
      /** Sessions of safemigrate. */
      ours: z.int(),
      /** Sessions of the command that were seen on the target. */
      command: z.int(),
      /** Sessions that were seen to belong to other programs. */
      others: z.int(),
      /** Sessions that the server counted but that were not seen. */
      unexplained: z.int(),
    })
    .nullable(),
  /** Work of safemigrate itself on the target, beyond reading catalogues. */
  touched: z.array(z.string()),
});

/** The clone that the command ran on. */
export const cloneSection = z.object({
  /** Clone method: `template`, `cluster`, `basebackup`, `dump`, … (docs/clone-methods.md). */
  method: z.string(),
  /** The way in which the method made the copy, such as `reflink`, `copy` or a kind of snapshot. */
  strategy: z.string(),
  /** `same-cluster`: a database beside the target. `own-cluster`: on a server of its own. */
  isolation: z.enum(['same-cluster', 'own-cluster']),
  /**
   * Isolation of the clone's server from others: `sandbox` (without network, and without processes and files of others),
   * `offline` (without network only), `own-server` (not at all), `target-server` (it is the target's), `other-server` (one that the
   * user named).
   */
  containment: z.enum(['sandbox', 'offline', 'own-server', 'target-server', 'other-server']),
  /** Things that a function of the command could still do on the target's server with the rights of its role; null if nothing is known. */
  exposure: z.string().nullable(),
  /** Name of the clone's database. */
  database: z.string(),
  /** Time from the beginning until the clone could be used. */
  durationMs: milliseconds,
  /** Size of the clone's database after the command; null: it could not be read. */
  sizeBytes: bytes.nullable(),
  /** Disk space that the clone occupies beyond what it shares with the target; on a server of its own without other databases there. */
  uniqueBytes: bytes.nullable(),
  /** Reason why this method was chosen. */
  reason: z.string(),
  /** The clone was kept on request (`--keep`). */
  kept: z.boolean(),
  /** The hosted service that made the clone; null for a clone that safemigrate made itself. */
  service: z
    .object({
      /** Name of the service. */
      name: z.string(),
      /** Class of its machine; null: the service does not tell it. */
      instance: z.string().nullable(),
      /** Time of the clone's data; null: it is not known. */
      asOf: time.nullable(),
      /** Pages come from a remote storage at their first use, so that times are upper bounds. */
      readsLazily: z.boolean(),
    })
    .nullable()
    .optional(),
  /** Every clone method that was assessed; the one that was used comes first. */
  considered: z.array(
    z.object({
      /** Clone method. */
      method: z.string(),
      /** The method could have been used here. */
      possible: z.boolean(),
      /** Reason why it is possible or impossible here. */
      reason: z.string(),
    }),
  ),
});

/** A place outside its sandbox that the command tried to reach. */
export const commandAttempt = z.object({
  /** Name or address that the command used; `localhost` for a port of this machine. */
  host: z.string(),
  /** null: it asked for the address of the name, and connected to none of the ports that are recorded. */
  port: z.int().nullable(),
  /** Number of times that it tried. */
  count: z.int(),
  /**
   * `not-allowed`: no `--permit` names it. `postgres`: it spoke the protocol of PostgreSQL, which needs
   * `--permit postgres:host:port`. `target`: it is the target itself, which cannot be allowed.
   */
  reason: z.enum(['not-allowed', 'postgres', 'target']),
});

/** Isolation of the command from the target, besides the proxy. */
export const commandIsolation = z.object({
  /**
   * `sandboxed`: it had no network but the proxy, and no Unix socket of this machine. `restricted`: it could connect over TCP to the
   * proxy's port alone. `watched`: its connections were.
   */
  kind: z.enum(['sandboxed', 'restricted', 'watched']),
  /** The means that isolated it; null: it was only watched. */
  by: z.enum(['bubblewrap', 'unshare', 'landlock', 'sandbox-exec']).nullable(),
  /** It could signal no process outside. */
  scoped: z.boolean(),
  /** The target's Unix sockets, if they were covered for the command although it was not sandboxed. */
  covered: z.array(z.string()),
  /** Places that it could reach all the same (`--permit`). */
  allowed: z.array(z.string()),
  /** Reason why it was not sandboxed; null if it was, or with `--sandbox off`. */
  reason: z.string().nullable(),
  /** Places that it tried to reach besides, in vain. */
  attempts: z.array(commandAttempt).optional(),
});

/** The migration command, as it ran on the clone. */
export const commandSection = z.object({
  /** Program and arguments, with secrets removed. */
  argv: z.array(z.string()),
  /** Exit code; null: a signal ended the command. */
  exitCode: z.int().nullable(),
  /** Signal that ended the command, such as `SIGTERM`; null: it ended by itself. */
  signal: z.string().nullable(),
  /** The command was ended because it exceeded `--timeout`. */
  timedOut: z.boolean(),
  /** Time from the start of the command to its end. */
  durationMs: milliseconds,
  /**
   * Processes of this machine that the kernel ended for lack of memory while the command ran. Given only if the command was killed,
   * so that it may be one of them.
   */
  endedForMemory: z.int().optional(),
  /**
   * It found the clone at the target's own address: of its words and variables only placeholders were rewritten. Older reports do not
   * have it.
   */
  byAddress: z.boolean().optional(),
  /**
   * Roles that it logged in with there, whose passwords were not tried: any password is let in. Older reports do not have it.
   */
  untriedPasswords: z.array(z.string()).optional(),
  /** Names of the variables, and positions of the arguments, that named the target and were rewritten to point to the clone. */
  rewritten: z.array(z.string()),
  /** Variables that were set besides. If `rewritten` is empty, nothing named the target, and these offer the clone to the command. */
  added: z.array(z.string()),
  /** Variables and arguments that may name the target but were not rewritten, with the reason. */
  undecided: z.array(
    z.object({
      /** Name of the variable, or position of the argument. */
      name: z.string(),
      /** Reason why it was not rewritten. */
      reason: z.string(),
    }),
  ),
  /** The command connected to the clone at least once. */
  reachedClone: z.boolean(),
  /** One of its clients left because the proxy speaks without TLS, which the client demands. Older reports do not have it. */
  leftForTls: z.boolean().optional(),
  /** One of its clients left because it does not trust the certificate of the run. Older reports do not have it. */
  leftForTrust: z.boolean().optional(),
  isolation: commandIsolation,
  /** Processes that it left running when it ended, as program and script. */
  leftRunning: z.array(
    z.object({
      /** Process id. */
      pid: z.int(),
      /** Program and script of the process. */
      command: z.string(),
    }),
  ),
  /** Statements that were refused, because they would have taken effect outside the clone. */
  refused: z.array(
    z.object({
      /** The statement or function that was refused. */
      what: z.string(),
      /** Reason why it was refused: the effect that it would have had. */
      why: z.string(),
    }),
  ),
  /** Statements that were run although they take effect outside the clone (`--permit cluster`). */
  allowed: z.array(z.string()),
  /** Statements that named the target and were redirected to the clone. */
  redirected: z.array(z.string()),
  /** Indexes of the statements that failed in the server although the command ended with exit code 0. */
  swallowedErrors: z.array(z.int()),
  /** The command failed although none of its statements did. */
  failedWithoutError: z.boolean(),
  /**
   * Tables of a migration tool without a row, by which it began with its first migration although other tables were there. Given only if the
   * command failed because something existed already, or by its own check.
   */
  emptyHistory: z.array(z.string()).optional(),
});

/** A session that the command opened on the target itself, bypassing safemigrate. */
export const targetConnection = z.object({
  /** The process that opened the session. */
  process: z.object({
    /** Process id. */
    pid: z.int(),
    /** Program and script of the process. */
    command: z.string(),
  }),
  /** Role that it logged in as; null: the server does not show it to our role. */
  user: z.string().nullable(),
  /** application_name of the session. */
  application: z.string(),
  /** Time at which the session began. */
  connectedAt: time,
  /** The last query of the session when it was found. */
  query: z.string().nullable(),
  /** safemigrate terminated the session. */
  ended: z.boolean(),
});

/** The profile by whose sizes and rates the run was judged. */
export const profileSection = z.object({
  /** Name of the database that the profile is of. */
  database: z.string(),
  /** Version of PostgreSQL there. */
  serverVersion: z.string(),
  /** Time at which the profile was taken. */
  takenAt: time,
  /** Age of the profile at the time of the run. */
  ageMs: milliseconds,
  /** false: it has a checksum alone, which anybody can make. */
  signed: z.boolean(),
  /** Number of relations in the profile. */
  relations: z.int(),
  /** Relations that the command's statements use and the profile does not have: judged by their size here. */
  missing: z.array(z.string()),
});

/** A value of the report that is an estimate or could not be measured, and the reason. */
export const caveat = z.object({
  /** A path in this report, or a prefix of one. */
  path: z.string(),
  /** `estimate`: the value is not exact. `unmeasured`: there is no value, or a part of it is missing. */
  kind: z.enum(['estimate', 'unmeasured']),
  /** The reason, in a sentence. */
  reason: z.string(),
});

export type TargetSection = z.infer<typeof targetSection>;
export type CloneSection = z.infer<typeof cloneSection>;
export type CommandSection = z.infer<typeof commandSection>;
export type CommandAttempt = z.infer<typeof commandAttempt>;
export type CommandIsolation = z.infer<typeof commandIsolation>;
export type TargetConnection = z.infer<typeof targetConnection>;
export type Caveat = z.infer<typeof caveat>;
