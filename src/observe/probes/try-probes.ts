import { sqlstateOf } from '../../errors.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier, literal } from '../../postgres/sql/quote.ts';
import { BATTERY, type Probe, type ProbeKind } from './battery.ts';
import type { ProbedRelation } from './probed-relations.ts';

/** The result of a probe. */
export type ProbeResult =
  | { readonly accepted: true; readonly rows: number; readonly value: string | null }
  | {
      readonly accepted: false;
      readonly sqlstate: string;
      readonly message: string;
      readonly constraint: string | null;
      readonly table: string | null;
      readonly column: string | null;
    };

export interface TriedProbe {
  readonly probe: Probe;
  readonly result: ProbeResult;
}

export interface TriedProbes {
  readonly tried: readonly TriedProbe[];
  /** Probes that no time was left for, or that took too long or waited for a lock. */
  readonly untried: number;
}

/** Probes take the first row of a table: the same one before and after, wherever another scan of a large one is at that moment. */
export const SAME_ROWS = ['synchronize_seqscans = off', 'max_parallel_workers_per_gather = 0'];

const ROLLBACK = 'ROLLBACK';
const LOCK_TIMEOUT = "SET lock_timeout = '100ms'";
const DEFAULTS = ['RESET statement_timeout', 'RESET lock_timeout'];
// The rollback of the probe before saves a round trip for each.
const BEGIN = [ROLLBACK, 'BEGIN READ WRITE', 'SET CONSTRAINTS ALL IMMEDIATE'];
/** Timeouts, deadlocks, failures for lack of memory or room, and the ends of sessions and servers. */
const NOT_TRIED = /^(?:08...|40...|53...|55P03|57...|58...)$/;

/**
 * Roles other than the first only read: privileges to write differ less. If policies show the first one no row, since their settings are
 * those of the application, writes can only be tried as the role of the session.
 */
export function probesOf(relation: ProbedRelation): Probe[] {
  const [first = null, ...others] = relation.roles;
  const writing = relation.rowSecurity && first !== null ? [first, null] : [first];
  return BATTERY.filter(({ writes }) => !writes || relation.writable).flatMap((kind) =>
    (kind.writes ? writing : [first, ...others]).flatMap((role) => made(kind, relation, role)),
  );
}

function made(kind: ProbeKind, relation: ProbedRelation, role: string | null): Probe[] {
  return kind.of(relation).map(({ subject = null, settings = [], ...tried }) => ({
    ...tried,
    kind,
    relation,
    subject,
    settings,
    role,
  }));
}

/**
 * Most probes take less than a millisecond, and an answer of a busy machine takes longer: so many are sent before the first answer, which
 * halves the time. Those that take long, which read many rows, are tried again when all others are done, one after the other, so that
 * they are over soon after the deadline.
 */
const ROUNDS = [
  { timeout: '25ms', ahead: 16 },
  { timeout: '1s', ahead: 1 },
] as const;

/**
 * Tries each probe in a transaction that is rolled back, in their order, until the time is over.
 * @param session `pipelined`, and may write to the clone; nothing of the command's runs meanwhile.
 */
export async function tryProbes(
  session: Session,
  probes: readonly Probe[],
  budgetMs: number,
): Promise<TriedProbes> {
  const deadline = performance.now() + budgetMs;
  const tried: TriedProbe[] = [];
  let left = probes;
  for (const { timeout, ahead } of ROUNDS) {
    await session.queryAll([ROLLBACK, `SET statement_timeout = '${timeout}'`, LOCK_TIMEOUT]);
    const waiting = left.values();
    const slow: Probe[] = [];
    const tryNext = async () => {
      for (const probe of waiting) {
        const result = performance.now() < deadline ? await tryProbe(session, probe) : null;
        if (result) tried.push({ probe, result });
        else slow.push(probe);
      }
    };
    await Promise.all(Array.from({ length: ahead }, tryNext));
    left = slow;
  }
  await session.queryAll([ROLLBACK, ...DEFAULTS]);
  return { tried, untried: left.length };
}

/** Puts the most telling kinds of all relations first: the time may not suffice for the rest. */
export function byKind(probes: readonly Probe[]): Probe[] {
  return BATTERY.flatMap((kind) => probes.filter((probe) => probe.kind === kind));
}

function tryProbe(session: Session, { sql, settings, role }: Probe): Promise<ProbeResult | null> {
  const as = role === null ? [] : [`SET LOCAL ROLE ${identifier(role)}`];
  return lastResult(session, [...BEGIN, ...settings, ...as, sql]);
}

/** Sends several statements at once, and returns the result of the last one; null: it could not be tried. */
export async function lastResult(
  { client }: Session,
  statements: readonly string[],
): Promise<ProbeResult | null> {
  try {
    const results: unknown = await client.query(statements.join(';\n'));
    const last = (results as { rowCount: number | null; rows: Record<string, unknown>[] }[]).at(-1);
    const [value] = Object.values(last?.rows[0] ?? {});
    const isScalar = last?.rows.length === 1 && Object.keys(last.rows[0] ?? {}).length === 1;
    return { accepted: true, rows: last?.rowCount ?? 0, value: isScalar ? String(value) : null };
  } catch (error) {
    const sqlstate = sqlstateOf(error);
    if (sqlstate === undefined) throw error;
    if (NOT_TRIED.test(sqlstate)) return null;
    const { message, constraint = null, table = null, column = null } = error as Refusal;
    return { accepted: false, sqlstate, message, constraint, table, column };
  }
}

interface Refusal {
  readonly message: string;
  readonly constraint?: string;
  readonly table?: string;
  readonly column?: string;
}

// A query that names each sequence takes the server five times as long. The function has no value of one that was never used.
const SEQUENCES = `
select pg_catalog.format('%I.%I', n.nspname, c.relname) as name, c.oid::pg_catalog.text as oid,
  pg_catalog.pg_sequence_last_value(c.oid)::pg_catalog.text as last
from pg_catalog.pg_class c join pg_catalog.pg_namespace n on n.oid = c.relnamespace where c.relkind = 'S' and c.relpersistence <> 't'`;

/** The value of each sequence by its OID, as setval() takes it: `7, true`. */
async function sequenceValues(session: Session): Promise<Map<string, string>> {
  const rows = await session.query<{ name: string; oid: string; last: string | null }>(SEQUENCES);
  const unused = rows
    .filter(({ last }) => last === null)
    .map(({ oid, name }) => `select ${literal(oid)} as oid, last_value::text as last, is_called from ${name}`)
    .join(' union all ');
  const values =
    unused === '' ? [] : await session.query<{ oid: string; last: string; is_called: boolean }>(unused);
  return new Map([
    ...rows.map(({ oid, last }) => [oid, `${last}, true`] as const),
    ...values.map(({ oid, last, is_called }) => [oid, `${last}, ${is_called}`] as const),
  ]);
}

/** Does something, and sets each sequence back to where it was: no rollback does that. */
export async function keepingSequences<T>(session: Session, use: () => Promise<T>): Promise<T> {
  const before = await sequenceValues(session);
  try {
    return await use();
  } finally {
    for (const [oid, value] of await sequenceValues(session)) {
      const was = before.get(oid);
      if (was !== undefined && was !== value)
        await session.query(`select pg_catalog.setval(${literal(oid)}::pg_catalog.regclass, ${was})`);
    }
  }
}
