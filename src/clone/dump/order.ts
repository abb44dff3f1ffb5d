import type { ClientPrograms } from '../../local-server/client-programs.ts';
import type { GuardedFolder } from '../../local-server/folder-cleaner.ts';
import type { CloneWishes } from '../method.ts';

export interface Transfer {
  readonly programs: ClientPrograms;
  /** A new one of its own, for logs and, where there is room, the dump; it is removed at the end. */
  readonly place: GuardedFolder;
  /** The environments in which the programs connect, and the databases there. */
  readonly from: { readonly environment: Readonly<Record<string, string>>; readonly database: string };
  readonly to: { readonly environment: Readonly<Record<string, string>>; readonly database: string };
  /** What the target holds; the dump takes at most that much. */
  readonly sizeBytes: number;
  readonly wishes: Pick<CloneWishes, 'schemaOnly' | 'excludeTableData'>;
  /** Roles of the target cannot be used there. */
  readonly withoutRoles: boolean;
  /** On another server there may be no such tablespaces. */
  readonly withoutTablespaces: boolean;
  readonly signal: AbortSignal;
  /** Called several times a second, with the size of the dump so far. */
  readonly onProgress: (dumpedBytes: number) => Promise<void>;
}

export interface Transferred {
  /** `directory`: dumped, then restored, each by several processes. `pipe`: both at once, by one each. */
  readonly mode: 'directory' | 'pipe';
  readonly jobs: number;
}
