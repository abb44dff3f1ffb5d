import { sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier } from '../postgres/sql/quote.ts';

/** A relation that the session may read. */
export interface Countable {
  readonly oid: number;
  readonly schema: string;
  readonly name: string;
  readonly bytes: number;
  /** The command touched it, so that its rows matter. */
  readonly touched: boolean;
}

/** For all relations together, those first that the command touched, and the small ones first of these. */
const BUDGET_MS = 1000;
/** For those that it did not touch, as far as that is known. */
const UNTOUCHED_MS = 300;
/** Until the first relations have shown how fast the server counts here. */
const FIRST_BYTES_PER_MS = 200_000;
/** Relations counted by one statement: few enough to notice in time that the budget is spent. */
const AT_ONCE = 50;
const AT_ONCE_BYTES = 16 * 1024 * 1024;
const AT_MOST = 2000;
const CANCELLED = '57014';

/** Counts the rows of the relations as far as about a second lasts. @returns rows by OID. */
export async function countRows(
  session: Session,
  relations: readonly Countable[],
): Promise<Map<number, number>> {
  const sorted = relations
    .toSorted((one, other) => Number(other.touched) - Number(one.touched) || one.bytes - other.bytes)
    .slice(0, AT_MOST);
  const counts = new Map<number, number>();
  const started = performance.now();
  let [rate, bytesCounted] = [FIRST_BYTES_PER_MS, 0];
  for (let at = 0; at < sorted.length; ) {
    const spent = performance.now() - started;
    const left = (sorted[at]?.touched ? BUDGET_MS : UNTOUCHED_MS) - spent;
    const chunk = nextChunk(sorted, at);
    const bytes = chunk.reduce((sum, each) => sum + each.bytes, 0);
    at += chunk.length;
    if (left <= 0 || bytes / rate > left) continue;
    for (const [oid, rows] of await counted(session, chunk, Math.ceil(left))) counts.set(oid, rows);
    bytesCounted += bytes;
    if (bytesCounted > AT_ONCE_BYTES) rate = bytesCounted / (performance.now() - started);
  }
  return counts;
}

/** @returns nothing if it takes longer than this. */
async function counted(
  session: Session,
  relations: readonly Countable[],
  limitMs: number,
): Promise<[oid: number, rows: number][]> {
  const sql = relations.map(({ oid, schema, name }) => {
    const relation = `${identifier(schema)}.${identifier(name)}`;
    return `select ${oid}::int8 as oid, pg_catalog.count(*) as n from only ${relation}`;
  });
  const count = async () => {
    const rows = await session.query<{ oid: string; n: string }>(sql.join(' union all '));
    return rows.map(({ oid, n }): [number, number] => [Number(oid), Number(n)]);
  };
  // Others are so small that no limit is worth its two statements.
  if (relations.length > 1 || (relations[0]?.bytes ?? 0) <= AT_ONCE_BYTES) return count();
  await session.query(`set statement_timeout = ${limitMs}`);
  try {
    return await count();
  } catch (error) {
    if (sqlstateOf(error) !== CANCELLED) throw error;
    return [];
  } finally {
    await session.query('reset statement_timeout');
  }
}

/** The next relations that one statement counts: all of them touched, or none. */
function nextChunk(relations: readonly Countable[], from: number): readonly Countable[] {
  let bytes = 0;
  const chunk: Countable[] = [];
  for (const relation of relations.slice(from, from + AT_ONCE)) {
    bytes += relation.bytes;
    if (chunk.length > 0 && (bytes > AT_ONCE_BYTES || relation.touched !== chunk[0]?.touched)) break;
    chunk.push(relation);
  }
  return chunk;
}
