import type { Report } from '../model/report.ts';
import type { PutAside } from '../ownership/mark.ts';
import { REHEARSAL_SETTINGS, type RehearseOptions } from '../rehearsal/rehearsal-settings.ts';
import { flag, grouped, type OptionsOf, pick } from '../settings.ts';
import { AGE, DURATION, listOf, SIZE, SWITCH, TEXT } from '../value-types.ts';

const GB = 2 ** 30;

/** Everything that a user can set for a swap, beyond its rehearsal. */
export const SWAP_SETTINGS = grouped(
  { group: 'Swap', modes: ['swap'] },
  {
    online: {
      enabled: flag('--online', SWITCH, {
        default: false,
        summary: 'migrate the clone while the target stays open',
        notInFile: true,
      }),
      maxCutOverMs: flag('--limit cut-over=<duration>', DURATION, {
        default: 500,
        summary:
          'longest time that the target may be closed until the clone has all writes; beyond it the target is opened and it is tried again (--online)',
        needs: 'online',
      }),
      maxKeptWalBytes: flag('--limit kept-wal=<size>', SIZE, {
        default: 10 * GB,
        summary: 'most WAL that the server may keep for the clone; beyond it everything is undone (--online)',
        needs: 'online',
      }),
      minFreeBytes: flag('--limit free-disk=<size>', SIZE, {
        summary:
          'least free space on the disk of pg_wal, if it can be seen; below it everything is undone (--online; default: 2GB or 5 % of the disk, whichever is more, but at most 10 %)',
        needs: 'online',
      }),
      catchUp: flag('--catch-up <file>', TEXT, {
        summary: 'SQL that fills new columns and tables again',
        needs: 'online',
        notInFile: true,
      }),
      postponeFile: flag('--postpone-file <file>', TEXT, {
        summary: 'cut over once this file is removed',
        needs: 'online',
        notInFile: true,
      }),
      wayBackMs: flag('--way-back <duration>', AGE, {
        summary: 'let the original follow: `rollback` keeps writes',
        needs: 'online',
      }),
    },
    window: {
      maxClosedMs: flag('--limit closed=<duration>', DURATION, {
        summary: 'longest time that the target may be closed; beyond it everything is undone',
      }),
      pgbouncer: flag('--pgbouncer <url>', listOf(TEXT), {
        default: [],
        summary: 'console of a PgBouncer to pause; repeatable',
      }),
      keepOriginalMs: flag('--keep-original <duration>', AGE, {
        summary: 'how long `clean --originals` keeps the original',
      }),
    },
    verify: flag('--verify <sql or command>', TEXT, {
      summary: 'check of the clone: SQL that is true, or a command',
      notInFile: true,
    }),
    allowStandbys: flag('--permit standbys', SWITCH, {
      default: false,
      summary: 'swap although standbys are attached: they have no readers, or are restarted afterwards',
      notInFile: true,
    }),
  },
);

export interface SwapOptions extends RehearseOptions, OptionsOf<typeof SWAP_SETTINGS> {
  /**
   * Gets the report of the rehearsal, and answers whether to continue.
   * @param closedMs estimate of how long the target will be closed: of an online swap, while it is cloned.
   * @param limits of an online swap: writes that a way back does not take back.
   */
  readonly confirm: (report: Report, closedMs: number, limits?: readonly string[]) => Promise<boolean>;
}

/** Everything that a user can set for a rollback. */
export const ROLLBACK_SETTINGS = {
  target: pick(REHEARSAL_SETTINGS.target, 'url', 'urlEnv'),
  window: pick(SWAP_SETTINGS.window, 'pgbouncer', 'maxClosedMs'),
  online: {
    maxCutOverMs: {
      ...SWAP_SETTINGS.online.maxCutOverMs,
      summary:
        'longest time that the target may be closed until the original has all writes; beyond it the target is opened and it is tried again (--way-back)',
    },
  },
  allowStandbys: SWAP_SETTINGS.allowStandbys,
  discardWrites: flag('--discard-writes', SWITCH, {
    default: false,
    summary: 'give up what was written since the swap: it stays in the database that is kept',
    group: 'Swap',
    notInFile: true,
  }),
};

export interface RollbackOptions
  extends OptionsOf<typeof ROLLBACK_SETTINGS>,
    Pick<RehearseOptions, 'emit' | 'audit' | 'signal' | 'env' | 'folder'> {
  /** Run of the swap to roll back. Default: the last one. */
  readonly run?: string | undefined;
  /** Answers whether to continue. */
  readonly confirm: (question: RollbackQuestion) => Promise<boolean>;
}

/** The facts that a person needs before a rollback. */
export interface RollbackQuestion {
  readonly target: string;
  /** The database that comes back, and the role in which it was put aside. */
  readonly database: string;
  readonly role: PutAside;
  /** It has followed the target, and so has the writes since, but for `writes`. */
  readonly follows: boolean;
  /** Writes so far that only the target has; they are given up if --discard-writes says so. */
  readonly writes: WritesSince;
}

/** Rows written to the target since it has its name, which the database that comes back does not have. */
export interface WritesSince {
  /** null: not known. */
  readonly rows: number | null;
  /** Why they are not known, or may not all be missing; null: it is the number that the server has counted. */
  readonly reason: string | null;
  /** Their tables, if only some of the tables' rows stay behind. */
  readonly tables: readonly string[];
}
