import { z } from 'zod';
import { bytes, milliseconds, time } from './measures.ts';

export const runSection = z.object({
  id: z.string(),
  startedAt: time,
  finishedAt: time,
  mode: z.enum(['rehearse', 'apply', 'swap']),
  tool: z.object({ name: z.literal('safemigrate'), version: z.string() }),
});

export const targetSection = z.object({
  host: z.string(),
  port: z.int(),
  database: z.string(),
  serverVersion: z.string(),
  sizeBytes: bytes,
  /** Where the connection came from: `--url`, `DATABASE_URL`, … */
  source: z.string(),
  /** Changes that the command or other sessions made on the target during the run. */
  changes: z.array(
    z.object({
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
   * Whether the command left the target as it was: `true` if that is proved, `false` if the command, or an unknown author,
   * changed it, `null` if neither is proved; `caveats` gives the reasons.
   */
  unchanged: z.boolean().nullable(),
  /**
   * Sessions that came to the target while the command could have connected, by whose they were. `others`: seen to be somebody
   * else's; `unexplained`: only counted by the server. null: not known.
   */
  sessions: z.object({ ours: z.int(), command: z.int(), others: z.int(), unexplained: z.int() }).nullable(),
  /** What safemigrate itself did on the target, beyond reading catalogues. */
  touched: z.array(z.string()),
});

export const cloneSection = z.object({
  method: z.string(),
  strategy: z.string(),
  isolation: z.enum(['same-cluster', 'own-cluster']),
  /**
   * How far the clone's server is kept from others: `sandbox` (without network, and without processes and files of others),
   * `offline` (without network only), `own-server` (not at all), `target-server` (it is the target's), `other-server` (one that the
   * user named).
   */
  containment: z.enum(['sandbox', 'offline', 'own-server', 'target-server', 'other-server']),
  /** What a function of the command could still do on the target's server with the rights of its role; null if nothing is known. */
  exposure: z.string().nullable(),
  database: z.string(),
  durationMs: milliseconds,
  sizeBytes: bytes.nullable(),
  /** Disk space that the clone occupies beyond what it shares with the target; on a server of its own without other databases there. */
  uniqueBytes: bytes.nullable(),
  reason: z.string(),
  /** The clone was kept on request (`--keep`). */
  kept: z.boolean(),
  /** Every clone method that was assessed; the one that was used comes first. */
  considered: z.array(z.object({ method: z.string(), possible: z.boolean(), reason: z.string() })),
});

/** A place outside its sandbox that the command tried to reach. */
export const commandAttempt = z.object({
  /** As the command named it; `localhost` for a port of this machine. */
  host: z.string(),
  /** null: it asked for the address of the name, and connected to none of the ports that are recorded. */
  port: z.int().nullable(),
  count: z.int(),
  /**
   * `not-allowed`: no `--sandbox-allow` names it. `postgres`: it spoke the protocol of PostgreSQL, which needs
   * `--sandbox-allow postgres:host:port`. `target`: it is the target itself, which cannot be allowed.
   */
  reason: z.enum(['not-allowed', 'postgres', 'target']),
});

/** What kept the command from the target, besides the proxy. */
export const commandIsolation = z.object({
  /**
   * `sandboxed`: it had no network but the proxy, and no Unix socket of this machine. `restricted`: it could connect over TCP to the
   * proxy's port alone. `watched`: its connections were.
   */
  kind: z.enum(['sandboxed', 'restricted', 'watched']),
  by: z.enum(['bubblewrap', 'unshare', 'landlock', 'sandbox-exec']).nullable(),
  /** It could signal no process outside. */
  scoped: z.boolean(),
  /** The target's Unix sockets, if they were covered for the command although it was not sandboxed. */
  covered: z.array(z.string()),
  /** What it could reach all the same (`--sandbox-allow`). */
  allowed: z.array(z.string()),
  /** Why it was not sandboxed; null if it was, or with `--sandbox off`. */
  reason: z.string().nullable(),
  /** Places that it tried to reach besides, in vain. */
  attempts: z.array(commandAttempt).optional(),
});

export const commandSection = z.object({
  argv: z.array(z.string()),
  exitCode: z.int().nullable(),
  signal: z.string().nullable(),
  timedOut: z.boolean(),
  durationMs: milliseconds,
  /** Names of the variables, and positions of the arguments, that named the target and were rewritten to point to the clone. */
  rewritten: z.array(z.string()),
  /** Variables that were set besides. If `rewritten` is empty, nothing named the target, and these offer the clone to the command. */
  added: z.array(z.string()),
  /** Variables and arguments that may name the target but were not rewritten, with the reason. */
  undecided: z.array(z.object({ name: z.string(), reason: z.string() })),
  /** The command connected to the clone at least once. */
  reachedClone: z.boolean(),
  isolation: commandIsolation,
  /** Processes that it left running when it ended, as program and script. */
  leftRunning: z.array(z.object({ pid: z.int(), command: z.string() })),
  /** Statements that were refused, because they would have taken effect outside the clone. */
  refused: z.array(z.object({ what: z.string(), why: z.string() })),
  /** Statements that were run although they take effect outside the clone (`--allow-cluster-statements`). */
  allowed: z.array(z.string()),
  /** Statements that named the target and were redirected to the clone. */
  redirected: z.array(z.string()),
  /** Indexes of the statements that failed in the server although the command ended with exit code 0. */
  swallowedErrors: z.array(z.int()),
  /** The command failed although none of its statements did. */
  failedWithoutError: z.boolean(),
});

/** A session that the command opened on the target itself, bypassing safemigrate. */
export const targetConnection = z.object({
  process: z.object({ pid: z.int(), command: z.string() }),
  user: z.string().nullable(),
  application: z.string(),
  connectedAt: time,
  /** The last query of the session when it was found. */
  query: z.string().nullable(),
  /** safemigrate terminated the session. */
  ended: z.boolean(),
});

/** The profile by whose sizes and rates the run was judged. */
export const profileSection = z.object({
  database: z.string(),
  serverVersion: z.string(),
  takenAt: time,
  ageMs: milliseconds,
  /** false: it has a checksum alone, which anybody can make. */
  signed: z.boolean(),
  relations: z.int(),
  /** Relations that the command's statements use and the profile does not have: judged by their size here. */
  missing: z.array(z.string()),
});

/** A value of the report that is an estimate or could not be measured, and the reason. */
export const caveat = z.object({
  /** A path in this report, or a prefix of one. */
  path: z.string(),
  kind: z.enum(['estimate', 'unmeasured']),
  reason: z.string(),
});

export type TargetSection = z.infer<typeof targetSection>;
export type CloneSection = z.infer<typeof cloneSection>;
export type CommandSection = z.infer<typeof commandSection>;
export type CommandAttempt = z.infer<typeof commandAttempt>;
export type CommandIsolation = z.infer<typeof commandIsolation>;
export type TargetConnection = z.infer<typeof targetConnection>;
export type ProfileSection = z.infer<typeof profileSection>;
export type Caveat = z.infer<typeof caveat>;
