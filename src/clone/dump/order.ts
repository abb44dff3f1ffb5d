import type { ClientPrograms } from '../../local-server/client-programs.ts';
import type { GuardedFolder } from '../../local-server/folder-cleaner.ts';
import type { CloneOptions } from '../clone-settings.ts';

export interface Transfer {
  readonly programs: ClientPrograms;
  /** A new folder for the logs and, if there is space, the dump; it is removed at the end. */
  readonly place: GuardedFolder;
  /** The environments with which the programs connect, and the databases. */
  readonly from: { readonly environment: Readonly<Record<string, string>>; readonly database: string };
  readonly to: { readonly environment: Readonly<Record<string, string>>; readonly database: string };
  /** Size of the target, the upper limit of the dump's. */
  readonly sizeBytes: number;
  readonly options: Pick<CloneOptions, 'schemaOnly' | 'excludeTableData'>;
  /** The target's roles cannot be used there. */
  readonly withoutRoles: boolean;
  /** Another server may lack the tablespaces. */
  readonly withoutTablespaces: boolean;
  readonly signal: AbortSignal;
  /** Called several times a second, with the size of the dump so far. */
  readonly onProgress: (dumpedBytes: number) => Promise<void>;
}

export interface Transferred {
  /** `directory`: dumped, then restored, each by several processes. `pipe`: both at the same time, by one process each. */
  readonly mode: 'directory' | 'pipe';
  readonly jobs: number;
}
