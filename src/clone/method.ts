import type { Target } from '../database/target.ts';
import type { SafemigrateError } from '../errors.ts';
import type { Emit } from '../events.ts';
import type { Unmeasured } from '../measured.ts';
import type { Caveat, CloneSection } from '../model/report.ts';
import type { FolderEntry } from '../ownership/folder-records.ts';
import type { MadeDatabases } from '../ownership/made-databases.ts';
import type { RunId } from '../ownership/run-id.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import type { ConnectionSettings } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { Scope } from '../scope.ts';
import type { CloneOptions, MethodId } from './clone-settings.ts';
import type { NotCarried } from './properties.ts';

/** One way to make a clone. Each is a file or folder of its own beside this one; choose.ts chooses. */
export interface CloneMethod {
  readonly id: MethodId;
  /** It can leave out rows: --schema-only and SAFEMIGRATE_EXCLUDE_TABLE_DATA. */
  readonly leavesOutRows?: true;
  /** It can clone other databases of the server beside the target: --database. */
  readonly clonesOthers?: true;
  /** Estimates the cost of this way here, or says why it cannot work. Changes nothing, leaves nothing. */
  assess(context: CloneContext): Promise<Assessment>;
  /** Makes the clone; whatever it acquires is owned by the scope before it exists. */
  create(context: CloneContext, assessment: Possible, scope: Scope): Promise<Clone>;
  /** Every statement and file operation that create() would do to the target's server, in order. */
  describe(context: CloneContext, assessment: Possible): Promise<string[]>;
}

/** A server on which databases can be made, and the session there that holds the run's advisory lock and makes them. */
export interface CloneServer {
  readonly target: Target;
  readonly control: Session;
  /** The database in which the session sits. */
  readonly lockDatabaseOid: number;
}

export interface CloneContext extends CloneServer {
  readonly run: RunId;
  /** Another server to make the clone on (`--clone-to`); its `target` is the database that was named there. */
  readonly rehearsal?: CloneServer;
  /** A standby of the target to copy from (`--clone-from`), so that the target itself does nothing. */
  readonly source?: Target;
  readonly options: CloneOptions;
  readonly emit: Emit;
  readonly signal: AbortSignal;
  readonly audit: Audit;
  /** Ends the run, when something was lost that it cannot go on without. */
  readonly fail: (error: SafemigrateError) => void;
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
  /** Sessions that are connected to the target now would have to go, by themselves or by --disconnect. */
  readonly endsSessions: boolean;
  /** The user has set it up for this very purpose. */
  readonly asked?: boolean;
  readonly isolation: 'same-cluster' | 'own-cluster';
  /** How far its server will be kept from others. */
  readonly containment: CloneSection['containment'];
  /** Why this strategy, in a sentence for the report. */
  readonly reason: string;
}

export interface Impossible {
  readonly possible: false;
  readonly reason: string;
  /** A way to make it possible. */
  readonly enable?: string;
}

export interface Clone {
  readonly method: MethodId;
  readonly strategy: string;
  readonly reason: string;
  readonly isolation: 'same-cluster' | 'own-cluster';
  /** How far its server is kept from others. */
  readonly containment: CloneSection['containment'];
  readonly database: string;
  readonly oid: number;
  /** Settings that lead to the clone, as the target's own user where its server knows the target's roles. */
  readonly connect: ConnectionSettings;
  /** Its server knows the target's roles, so that every login of the command's works there as it does on the target. */
  readonly sharesRoles: boolean;
  /** Sessions on its server outside of it: for reading locks and WAL, never in the way of a DROP DATABASE. */
  readonly server: { readonly control: Session; open(purpose: string): Promise<Session> };
  /** The statement that marks it, for where the command would put a comment of its own; null where none is needed. */
  marking(): string | null;
  /** Databases that the command makes beside it. */
  readonly made: MadeDatabases;
  /** Databases that its server knows by name, but whose files were not copied. */
  readonly leftOut?: ReadonlySet<string>;
  /** Until it could be used. */
  readonly durationMs: number;
  /** For how long new connections to the target had to wait. */
  readonly stallMs: number;
  /** Properties of the target that the role could not give to the clone. */
  readonly notCarried: NotCarried[];
  /** Effects of the making on the target's server beyond reading, in words for the report. */
  readonly touched: string[];
  /** Facts of a clone that a hosted service made. */
  readonly service?: NonNullable<CloneSection['service']>;
  /** Ids of the transactions of --after-clone, in its own server. */
  readonly preparedIn?: readonly number[];
  /** Differences from the target, which make the rehearsal less true. */
  readonly caveats: Caveat[];
  /** Space that it takes beyond what it shares with the target, at this moment; the reason if that cannot be determined. */
  uniqueBytes(): Promise<number | Unmeasured>;
  /** From now on the end of the run leaves it where it is. */
  keep(): Promise<void>;
  /**
   * Makes its state the first one, to which `safemigrate reset` brings it back, makes more clones of that state, and keeps them all.
   * Its control session is closed. Only a clone on a server of its own has this.
   * @returns the records of all, its own first.
   */
  keepResettable?(count: number): Promise<FolderEntry[]>;
}
