import type { Caveat } from '../../model/report.ts';
import type { Possible } from '../method.ts';
import type { MethodId } from '../method-id.ts';

/** A copy of a whole cluster that is about to be made in a folder of its own and started as a second server. */
export interface PrivateServer {
  readonly method: MethodId;
  readonly assessment: Possible;
  /**
   * The folder that everything of the clone goes into: `<parent>/safemigrate_<run>`, without symbolic links; it does not
   * exist yet.
   */
  readonly folder: string;
  /** Owner of the original's data directory: the second server runs as this user. */
  readonly owner: { readonly uid: number; readonly gid: number };
  /** The folder of the original's programs (`postgres`). */
  readonly programs: string;
  /**
   * A shell command that gives back what removing the folder does not (`zfs destroy …`), harmless where there is nothing
   * yet. The watchdog runs it, after the server has ended and before the folder is removed.
   */
  readonly release?: string;
  /**
   * Makes `<folder>/data` (and `<folder>/tablespaces/<oid>`), ready for crash or backup recovery.
   */
  fill(folder: string): Promise<FilledFolder>;
}

export interface FilledFolder {
  /** What copying did to the original server, in words for the report. */
  readonly touched: string[];
  /** What makes the copy differ from the original. */
  readonly caveats: Caveat[];
  /** OIDs of the databases whose files were copied; null for all. */
  readonly databases: ReadonlySet<string> | null;
}
