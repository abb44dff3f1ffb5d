import { formatDuration } from '../format.ts';
import type { PutAside } from './mark.ts';
import type { OwnedDatabase } from './owned.ts';
import { startOf } from './run-id.ts';

export function isPutAside(role: OwnedDatabase['role']): role is PutAside {
  return role === 'original' || role === 'rolled-back';
}

/** Returns the role of the database that makes room for one with this role: the original and the migrated one change places. */
export function counterpartOf(role: OwnedDatabase['role']): PutAside {
  return role === 'rolled-back' ? 'original' : 'rolled-back';
}

/** Returns the time at which a database was put aside, in milliseconds since 1970; null if that is not known. */
export function putAsideAt({ run, mark }: Pick<OwnedDatabase, 'run' | 'mark'>): number | null {
  if (mark?.putAsideAt !== undefined) return Date.parse(mark.putAsideAt);
  return run === null ? null : startOf(run);
}

/** A request to drop databases that were put aside: all of a kind that may be dropped, or those older than that. */
export interface Disposal {
  readonly olderThanMs?: number;
}

/** Says why a database that was put aside stays; null: it may be dropped. @param asked absent: nothing was asked for its kind. */
export function reasonToKeep(
  database: OwnedDatabase,
  role: PutAside,
  asked: Disposal | undefined,
): string | null {
  const { what, flag } = KEPT[role];
  if (asked === undefined) return `it is ${what}; \`safemigrate clean ${flag}`;
  if (asked.olderThanMs !== undefined) {
    const at = putAsideAt(database);
    return at === null || Date.now() - at < asked.olderThanMs ? `it is ${what}, and not that old` : null;
  }
  return role === 'original' ? reasonOfTime(database) : null;
}

const KEPT: Readonly<Record<PutAside, { readonly what: string; readonly flag: string }>> = {
  original: { what: 'a kept original', flag: '--originals` drops those whose time is over' },
  'rolled-back': {
    what: 'a rolled-back database, with rows that may be nowhere else',
    flag: '--rolled-back` drops it',
  },
};

function reasonOfTime({ mark }: OwnedDatabase): string | null {
  if (mark?.keepUntil === undefined)
    return 'it is a kept original, and no time was set for it; with --older-than its age decides';
  const leftMs = Date.parse(mark.keepUntil) - Date.now();
  return leftMs > 0 ? `it is an original that is to be kept for another ${formatDuration(leftMs)}` : null;
}
