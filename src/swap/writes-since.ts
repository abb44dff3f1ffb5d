import { plural } from '../format.ts';
import type { OwnedDatabase } from '../ownership/owned.ts';
import type { DatabaseWrites } from './database-state.ts';
import type { WritesSince } from './swap-settings.ts';

/** Subtracts the rows written before the exchange that put the database aside from those that the server has counted. */
export function writesSince({ mark }: Pick<OwnedDatabase, 'mark'>, now: DatabaseWrites): WritesSince {
  const unknown = (reason: string) => ({ rows: null, reason, tables: [] });
  if (mark?.writes === undefined || !now.counted)
    return unknown('the server did not count them (track_counts, or an online swap on PostgreSQL 14)');
  const rows = now.rows - BigInt(mark.writes);
  if (rows < 0n || now.since !== mark.countedSince)
    return unknown("the server's counters were reset in the meantime");
  return { rows: Number(rows), reason: null, tables: [] };
}

/** Names the exchange since which rows were written: a rollback has put aside what comes back by another rollback. */
export function exchangeOf(role: OwnedDatabase['role']): 'the swap' | 'the rollback' {
  return role === 'rolled-back' ? 'the rollback' : 'the swap';
}

/** `774 rows were written since the swap`; null: there are none. */
export function writesWords({ rows, reason, tables }: WritesSince, since: string): string | null {
  if (rows === null) return `writes since ${since} are not known: ${reason}`;
  if (rows === 0) return null;
  const where = tables.length === 0 ? '' : ` in ${tables.join(', ')}`;
  const doubt = reason === null ? '' : `, and ${reason}`;
  return `${plural(rows, 'row')} ${rows === 1 ? 'was' : 'were'} written${where} since ${since}${doubt}`;
}
