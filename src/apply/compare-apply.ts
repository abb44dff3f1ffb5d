import { formatCount, plural } from '../format.ts';
import type {
  ApplySection,
  DuringSection,
  SchemaChange,
  SchemaSection,
  StatementSection,
} from '../model/report.ts';
import { normalizeSql, plainOf } from '../postgres/sql/normalize.ts';
import { shapeHash } from '../postgres/sql/statement-hashes.ts';
import { type Rehearsed, type RehearsedStatement, rehearsedOf } from '../rehearsal/receipts/rehearsed.ts';

/**
 * Compares the durations and rows of the rehearsed and the applied statements. It matches them by their normalized text, in their order,
 * so that a statement on one side only has no partner and does not shift the pairs after it.
 */
export function compareTimes(
  rehearsed: Rehearsed,
  applied: Parameters<typeof rehearsedOf>[0],
): ApplySection['comparedTimes'] {
  const waiting = new Map<string, RehearsedStatement[]>();
  for (const statement of rehearsed.statements) {
    const queue = waiting.get(statement.shape);
    if (queue) queue.push(statement);
    else waiting.set(statement.shape, [statement]);
  }
  return rehearsedOf(applied).statements.flatMap(({ index, sql, shape, durationMs, rows }) => {
    const partner = waiting.get(shape)?.shift();
    if (!partner) return [];
    return [
      {
        sql,
        rehearsed: partner.index,
        applied: index,
        rehearsedMs: partner.durationMs,
        appliedMs: durationMs,
        rehearsedRows: partner.rows,
        appliedRows: rows,
      },
    ];
  });
}

/**
 * Says which statements lost more rows than in the rehearsal: DELETE with more rows, UPDATE that changed none there. Statements of a
 * loop count together.
 */
export function lostRows(
  rehearsed: Pick<Rehearsed, 'statements'>,
  applied: readonly Pick<StatementSection, 'index' | 'sql' | 'tag' | 'rows'>[],
): string[] {
  const before = new Map<string, number>();
  for (const { shape, rows } of rehearsed.statements)
    before.set(shape, (before.get(shape) ?? 0) + (rows ?? 0));
  const now = new Map<string, { statement: number; verb: string; rows: number }>();
  for (const { index, sql, tag, rows } of applied) {
    const verb = LOSING[tag?.split(' ', 1)[0] ?? ''];
    const shape = shapeHash(sql);
    if (verb === undefined || rows === null || !before.has(shape)) continue;
    const earlier = now.get(shape);
    now.set(shape, { statement: earlier?.statement ?? index, verb, rows: (earlier?.rows ?? 0) + rows });
  }
  return [...now].flatMap(([shape, { statement, verb, rows }]) => {
    const there = before.get(shape) ?? 0;
    if (rows <= there || (verb === LOSING.UPDATE && there > 0)) return [];
    return [`statement ${statement} ${verb} ${plural(rows, 'row')}, ${formatCount(there)} in the rehearsal`];
  });
}

const LOSING: Readonly<Record<string, string>> = { DELETE: 'deleted', UPDATE: 'changed' };

/** Counts the statements that were not rehearsed, or were rehearsed with other values. */
export function unlikeStatements(diverged: DuringSection['diverged']): string[] {
  const withOtherValues = diverged.filter(({ onlyValues }) => onlyValues).length;
  const unrehearsed = diverged.length - withOtherValues;
  return [
    ...(unrehearsed === 0
      ? []
      : [`${plural(unrehearsed, 'statement')} that ${unrehearsed === 1 ? 'was' : 'were'} not rehearsed`]),
    ...(withOtherValues === 0
      ? []
      : [`${plural(withOtherValues, 'statement')} with other values than in the rehearsal`]),
  ];
}

/** Deadlocks and timeouts, after which a transaction may be repeated with other values. */
const TRANSIENT = /^(?:40|55P03|57014)/;

/** The texts of statements that failed on the target, were not sent again with success, and did not fail in the rehearsal. */
export function failedOnlyHere(
  rehearsed: Pick<Rehearsed, 'statements'>,
  applied: readonly Pick<StatementSection, 'sql' | 'error'>[],
): string[] {
  const failedBefore = new Set(rehearsed.statements.filter(({ failed }) => failed).map(({ shape }) => shape));
  const failed = new Map<string, string>();
  for (const { sql, error } of applied) {
    if (error === null) {
      failed.delete(plainOf(sql));
      failed.delete(normalizeSql(sql));
    } else if (!failedBefore.has(shapeHash(sql)))
      failed.set(TRANSIENT.test(error.sqlstate) ? normalizeSql(sql) : plainOf(sql), sql);
  }
  return [...failed.values()];
}

/**
 * Compares the target's schema with the one that the rehearsal ended with. If the clone lacked something of the target, their
 * fingerprints differ from the start; then the changes must be the same.
 * @returns differences as descriptions of how the target differs from the result of the rehearsal.
 * @param otherValues statements had other values on the target: then the changes are compared without their literals.
 */
export function compareSchemas(
  rehearsed: SchemaSection,
  applied: SchemaSection,
  otherValues = false,
): { equal: boolean; differences: string[] } {
  if (applied.after === rehearsed.after) return { equal: true, differences: [] };
  const before = otherValues ? withoutLiterals(rehearsed.changes) : rehearsed.changes;
  const after = otherValues ? withoutLiterals(applied.changes) : applied.changes;
  const missing = without(before, after).map((change) => `missing: ${nameOf(change)}`);
  const added = without(after, before).map((change) => `not rehearsed: ${nameOf(change)}`);
  const differences = [...missing, ...added];
  const mayDiffer = otherValues || applied.before !== rehearsed.before;
  if (differences.length === 0 && mayDiffer) return { equal: true, differences };
  return {
    equal: false,
    differences:
      differences.length > 0
        ? differences
        : ['the same objects were changed, but the fingerprints of the schemas differ'],
  };
}

function withoutLiterals(changes: readonly SchemaChange[]): SchemaChange[] {
  return changes.map((change) => ({ ...change, sql: normalizeSql(change.sql) }));
}

function without(changes: readonly SchemaChange[], others: readonly SchemaChange[]): SchemaChange[] {
  const known = new Set(others.map(keyOf));
  return changes.filter((change) => !known.has(keyOf(change)));
}

function keyOf({ verb, kind, object, sql }: SchemaChange): string {
  return JSON.stringify([verb, kind, object, sql]);
}

const nameOf = ({ verb, kind, object }: SchemaChange) => `${verb} ${kind} ${object}`;
