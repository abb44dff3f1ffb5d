import type { Emit } from '../events.ts';
import type { Scope } from '../scope.ts';
import type { Audit, Session } from '../target/session.ts';
import type { ConnectionSettings } from '../target/settings.ts';
import type { Target } from '../target/target.ts';
import type { MadeDatabases } from '../upkeep/made-databases.ts';
import type { RunId } from '../upkeep/run-id.ts';
import type { NotCarried } from './properties.ts';

/** One way to make a clone. Each stands in a file or folder of its own beside this one; choose.ts picks. */
export interface CloneMethod {
  readonly id: 'template';
  /** What this way would cost here, or why it cannot work. Changes nothing, leaves nothing. */
  assess(context: CloneContext): Promise<Assessment>;
  /** Makes the clone; whatever it acquires is owned by the scope before it exists. */
  create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone>;
  /** Every statement and file operation that create() would do to the target's server, in order. */
  describe(context: CloneContext, assessment: Possible): Promise<string[]>;
}

export interface CloneContext {
  readonly target: Target;
  readonly run: RunId;
  /** The session that holds the run's advisory lock; the same session makes the clone. */
  readonly control: Session;
  /** The database in which it sits. */
  readonly lockDatabaseOid: number;
  readonly limits: CloneLimits;
  readonly emit: Emit;
  readonly signal: AbortSignal;
  readonly audit: Audit;
}

export interface CloneLimits {
  readonly disconnect: 'never' | 'idle' | 'all';
  /** How long to wait for the target to be free of sessions. */
  readonly waitMs: number;
  /** How long new connections to the target may be made to wait. */
  readonly maxStallMs: number;
}

export type Assessment = Possible | Impossible;

export interface Possible {
  readonly possible: true;
  /** How the method does it here: for `template` one of `clone`, `copy`, `wal_log`. */
  readonly strategy: string;
  /** Estimated time until the clone can be used. */
  readonly readyMs: number;
  /** Estimated time for which new connections to the target wait. */
  readonly stallMs: number;
  /** Disk space that the clone takes at once. */
  readonly bytes: number;
  /** It works only when no other session is connected to the target. */
  readonly endsSessions: boolean;
  readonly isolation: 'same-cluster' | 'own-cluster';
  /** Why this strategy, in a sentence for the report. */
  readonly reason: string;
}

export interface Impossible {
  readonly possible: false;
  readonly reason: string;
  /** What would make it possible. */
  readonly enable?: string;
}

export interface Clone {
  readonly method: CloneMethod['id'];
  readonly strategy: string;
  readonly reason: string;
  readonly isolation: 'same-cluster' | 'own-cluster';
  readonly database: string;
  readonly oid: number;
  /** Settings that lead to the clone, as the target's own user. */
  readonly connect: ConnectionSettings;
  /** The statement that marks it, for where the command would put a comment of its own. */
  marking(): string;
  /** Databases that the command makes beside it. */
  readonly made: MadeDatabases;
  /** Until it could be used. */
  readonly durationMs: number;
  /** For how long new connections to the target had to wait. */
  readonly stallMs: number;
  /** Properties of the target that the role could not give to the clone. */
  readonly notCarried: NotCarried[];
  /** What the making did to the target's server beyond reading, in words for the report. */
  readonly touched: string[];
  /** From now on the end of the run leaves it where it is. */
  keep(): Promise<void>;
}
