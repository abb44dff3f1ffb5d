import type { Caveat } from '../../model/report.ts';
import type { Possible } from '../method.ts';
import type { MethodId } from '../method-id.ts';

/** Describes a copy of a whole cluster that will be created in a folder of its own and started as a second server. */
export interface PrivateServer {
  readonly method: MethodId;
  readonly assessment: Possible;
  /**
   * The folder for the whole clone: `<parent>/safemigrate_<run>`, without symbolic links; it does not exist yet.
   */
  readonly folder: string;
  /** Owner of the original's data directory: the second server runs as this user. */
  readonly owner: { readonly uid: number; readonly gid: number };
  /** How many files it will have; undefined if that is not known. */
  readonly files?: number;
  /** The folder of the original's programs (`postgres`). */
  readonly programs: string;
  /** Other folders that its sandbox shows: programs and libraries. */
  readonly libraries?: readonly string[];
  /**
   * A shell command that releases what removing the folder does not (`zfs destroy …`), harmless if there is nothing yet, and
   * repeated if it fails. The watchdog runs it after the server has ended, before the folder is removed.
   */
  readonly release?: string;
  /** Shell commands that save the first state of a clone that can be reset, and go back to it. Default: its folder is copied. */
  readonly rollback?: { readonly save: string; readonly restore: string };
  /** The folders of the server's files, if they lie among others in the folder. */
  readonly places?: readonly string[];
  /** A folder that has the space that the clone takes. Default: the parent of its folder. */
  readonly space?: string;
  /** Creates `<folder>/data` (and `<folder>/tablespaces/<oid>`), ready for crash or backup recovery. */
  fill(folder: string): Promise<FilledFolder>;
}

export interface FilledFolder {
  /** Describes for the report what copying did to the original server. */
  readonly touched: string[];
  /** Describes how the copy differs from the original. */
  readonly caveats: Caveat[];
  /** OIDs of the databases whose files were copied; null for all. */
  readonly databases: ReadonlySet<string> | null;
  /** For a copy that recovers from an archive. */
  readonly recovery?: Recovery;
}

export interface Recovery {
  /** Settings of the server in addition to the others. */
  readonly settings: Readonly<Record<string, string>>;
  /** Does what it takes that the server can recover, while it starts. */
  during<T>(start: () => Promise<T>): Promise<T>;
}
