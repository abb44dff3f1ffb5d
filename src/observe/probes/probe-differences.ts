import type { ProbeDifference } from '../../model/probe-difference.ts';
import type { DataSection, SchemaSection } from '../../model/report.ts';
import {
  bare,
  displayName,
  identifier,
  lastPart,
  literal,
  withoutLastPart,
} from '../../postgres/sql/quote.ts';
import type { SequenceState } from './sequence-probes.ts';
import type { ProbeResult, TriedProbe } from './try-probes.ts';

/** The changes by the command on the clone that decide whether a difference is expected. */
export interface ProbedChanges {
  readonly schema: SchemaSection;
  readonly data: DataSection | null;
}

type Refused = ProbeResult & { readonly accepted: false };

/** Refusals of values by constraints. */
const INTEGRITY = /^23/;
const NULL_REFUSED = '23502';
/** Refusals by CHECKs, keys and foreign keys, which come after those for a lack of values. */
const LATER_THAN_NULLS = new Set(['23503', '23505', '23514', '23P01']);
/** Names that do not exist, rights that a role lacks, and views (55000) and columns of views (0A000) that cannot be written. */
const OF_NAMES = /^(?:42|55000|0A000)/;
/** Failures of a probe's own expression, if a column has another type. */
const OF_TYPES = new Set(['42883', '42804', '42846', '42725', '22P02']);

/** Finds the probes with another result than before, except those that the command could only have meant to change. */
export function differences(
  before: readonly TriedProbe[],
  after: readonly TriedProbe[],
  changes: ProbedChanges,
): ProbeDifference[] {
  const then = new Map(before.map(({ probe, result }) => [probe, result]));
  const expected = new ExpectedChanges(changes);
  return after.flatMap(({ probe, result: now }) => {
    const was = then.get(probe);
    const kind = was && differenceOf(probe, was, now, expected);
    if (!kind) return [];
    const { relation, subject, settings, sql, role, callsPerSecond, remedy = null } = probe;
    const refused = now.accepted ? (was.accepted ? null : was) : now;
    return [
      {
        kind,
        relation: relation.relation,
        reads: relation.reads,
        probe: probe.kind.name,
        subject,
        sql: [...(role === null ? [] : [`SET LOCAL ROLE ${identifier(role)}`]), ...settings, sql].join('; '),
        remedy: kind === 'reads differ' ? remedy : null,
        role,
        before: resultWords(was, probe.kind.counts),
        after: resultWords(now, probe.kind.counts),
        sqlstate: refused?.sqlstate ?? null,
        constraint: refused?.constraint ?? null,
        ...(callsPerSecond === undefined ? {} : { callsPerSecond }),
      },
    ];
  });
}

function differenceOf(
  { relation, kind, subject, callsPerSecond }: TriedProbe['probe'],
  was: ProbeResult,
  now: ProbeResult,
  expected: ExpectedChanges,
): ProbeDifference['kind'] | null {
  // It takes its value from the table that refers to the row, whose own changes have their own hazards.
  const isOfParent = kind.name === 'DELETE of a row' && subject !== null;
  if (kind.refusedBy !== null)
    return !was.accepted && was.sqlstate === kind.refusedBy && now.accepted && now.rows > 0
      ? 'accepts more'
      : null;
  const isLacking = !now.accepted && now.sqlstate === NULL_REFUSED;
  // A column that must have a value, and that running code does not name.
  if (was.accepted && isLacking && callsPerSecond !== undefined) return 'accepts less';
  // A row like it could not be there twice, but lacked nothing.
  if (!was.accepted && isLacking && LATER_THAN_NULLS.has(was.sqlstate))
    return expected.refuses(relation.relation, now) ? null : 'accepts less';
  // There was no row to try it with, or row security hid it; names are looked up all the same.
  const hadNoRow = kind.writes && was.accepted && was.rows === 0;
  if (was.accepted && !now.accepted)
    return (hadNoRow && !OF_NAMES.test(now.sqlstate)) ||
      expected.refuses(relation.relation, now) ||
      (isOfParent && OF_NAMES.test(now.sqlstate))
      ? null
      : 'accepts less';
  // The row that it refers to may be there now.
  const parent = was.accepted ? undefined : relation.references.find(({ name }) => name === was.constraint);
  if (parent && expected.writes(parent.other, [])) return null;
  if (!was.accepted && now.accepted)
    return INTEGRITY.test(was.sqlstate) && now.rows > 0 && (kind.name !== 'DELETE of a row' || isOfParent)
      ? 'accepts more'
      : null;
  if (!was.accepted || !now.accepted || expected.writes(relation.relation, relation.reads)) return null;
  if (kind.counts) return was.value === now.value ? null : 'reads differ';
  if (was.rows === 0 || now.rows > 0 || expected.empties(relation.relation)) return null;
  return kind.writes ? 'accepts less' : 'reads differ';
}

/** The changes that the command makes on purpose. */
class ExpectedChanges {
  readonly #written: ReadonlySet<string>;
  readonly #empty: ReadonlySet<string>;
  /** Constraints and unique indexes that it made under new names. */
  readonly #constraints: ReadonlySet<string>;
  /** Relations with a column of another type, perhaps another column under the same name. */
  readonly #retyped: ReadonlySet<string>;
  /** Columns that became NOT NULL. */
  readonly #required: ReadonlySet<string>;

  constructor({ schema, data }: ProbedChanges) {
    this.#written = new Set(
      (data?.written ?? [])
        .filter(({ inserted, updated, deleted }) => inserted + updated + deleted > 0)
        .map(({ relation }) => relation),
    );
    this.#empty = new Set(
      (data?.tables ?? []).filter(({ rowsAfter }) => rowsAfter === 0).map(({ relation }) => relation),
    );
    const named = (verb: string) =>
      schema.changes
        .filter((change) => change.verb === verb && (change.kind === 'constraint' || change.kind === 'index'))
        .map(({ object }) => bare(lastPart(object)));
    const dropped = new Set(named('drop'));
    this.#constraints = new Set(named('create').filter((name) => !dropped.has(name)));
    const altered = (sql: RegExp) =>
      schema.changes
        .filter((change) => change.verb === 'alter' && change.kind === 'column' && sql.test(change.sql))
        .map(({ object }) => object);
    const columns = (verb: string) =>
      schema.changes
        .filter((each) => each.verb === verb && each.kind === 'column')
        .map(({ object }) => object);
    const gone = new Set([...columns('drop'), ...schema.renames.map(({ from }) => from)]);
    const replaced = [...columns('create'), ...columns('rename')].filter((column) => gone.has(column));
    this.#retyped = new Set([...altered(/ TYPE /), ...replaced].map(withoutLastPart));
    this.#required = new Set(altered(/ SET NOT NULL\b/));
  }

  /** Tells if a new constraint of the table's own refuses it, or the probe does not suit the new type of a column. */
  refuses(relation: string, { sqlstate, constraint, table, column }: Refused): boolean {
    if (OF_TYPES.has(sqlstate) && this.#retyped.has(relation)) return true;
    if (sqlstate === NULL_REFUSED && this.#required.has(`${relation}.${displayName(column ?? '')}`))
      return true;
    const isOwn = table !== null && bare(lastPart(relation)) === table;
    return INTEGRITY.test(sqlstate) && isOwn && constraint !== null && this.#constraints.has(constraint);
  }

  writes(relation: string, reads: readonly string[]): boolean {
    return [relation, ...reads].some((name) => this.#written.has(name));
  }

  empties(relation: string): boolean {
    return this.#empty.has(relation);
  }
}

/** A result as text. @param counts its value counts, not the number of its rows. */
export function resultWords(result: ProbeResult, counts: boolean): string {
  if (!result.accepted) return `${result.message} (SQLSTATE ${result.sqlstate})`;
  return counts ? `result ${result.value}` : `${result.rows} ${result.rows === 1 ? 'row' : 'rows'}`;
}

/** Finds the sequences that the command left behind the values of their column. */
export function sequencesBehind(
  before: readonly SequenceState[],
  after: readonly SequenceState[],
): ProbeDifference[] {
  const formerOf = ({ id, relation, column }: SequenceState) =>
    before.find((other) => other.id === id) ??
    before.find((other) => other.relation === relation && other.column === column);
  return after
    .filter(({ behind }) => behind)
    .map((each) => ({ each, was: formerOf(each) }))
    .filter(({ was }) => !was?.behind)
    .map(({ each, was }) => ({
      kind: 'sequence behind',
      relation: each.relation,
      reads: [],
      probe: `value of ${each.sequence}`,
      subject: each.column,
      sql: each.sql,
      remedy: remedyOf(each, was),
      role: null,
      before: was ? `${was.next}, greatest value ${was.greatest}` : 'another sequence',
      after: `${each.next}, greatest value ${each.greatest}`,
      sqlstate: null,
      constraint: null,
    }));
}

/** A statement after which the next value is free; the greatest one is read again, since rows may come in the meantime. */
function remedyOf(now: SequenceState, was: SequenceState | undefined): string {
  const { sequence, increment, isBeyond } = now;
  if (isBeyond) return `ALTER SEQUENCE ${sequence} NO MINVALUE NO MAXVALUE`;
  if (was && was.sequence === sequence && was.increment !== increment)
    return `ALTER SEQUENCE ${sequence} INCREMENT BY ${was.increment}`;
  return `SELECT setval(${literal(sequence)}, (SELECT max(${now.column}) FROM ${now.relation}))`;
}
