import { plural } from '../../format.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { displayName, identifier } from '../../postgres/sql/quote.ts';
import { guardOf } from './catch-up-script.ts';
import { followTable, OFFLINE, qualified, shown, type TablePair } from './follow-table.ts';
import { formerNames, type Reversible } from './former-names.ts';
import {
  byOid,
  type CatalogueSequence,
  type CatalogueTable,
  type OnlineCatalogue,
  readOnlineCatalogue,
} from './online-catalogue.ts';
import type {
  LeftOutTable,
  OnlineEligibility,
  OnlineObjection,
  OnlinePlan,
  OnlineSequence,
  OnlineTable,
} from './online-plan.ts';
import { planForeignKeys } from './plan-foreign-keys.ts';
import { planWayBack } from './plan-way-back.ts';

/** The state of both databases right before the command ran on the clone. */
export interface CloneBirth {
  readonly target: OnlineCatalogue;
  readonly clone: OnlineCatalogue;
}

/** Facts of a rehearsal that no catalogue has afterwards. */
export interface RehearsedFacts {
  readonly birth: CloneBirth;
  /** Both right after the command, if more has happened since: a rehearsal tries writes on its clone. */
  readonly now?: CloneBirth;
  /** Rows that the command wrote may come from other rows: INSERT … SELECT, a SELECT that it read, code that was not seen. */
  readonly derivesRows: boolean;
  /** A statement may convert values by an expression: ALTER COLUMN … TYPE … USING other than a cast to the new type. */
  readonly convertsByExpression: boolean;
  /** The user's --catch-up fills the new columns and tables again, from the rows that production has written in the meantime. */
  readonly catchesUp: boolean;
}

/** Reads what planOnlineSwap() compares with after the command. Both sessions read only. */
export async function readCloneBirth(target: Session, clone: Session): Promise<CloneBirth> {
  return {
    target: await readOnlineCatalogue(target, 'target'),
    clone: await readOnlineCatalogue(clone, 'clone'),
  };
}

/** Large objects have no replica identity and are in no publication. */
const LARGE_OBJECTS: readonly LeftOutTable[] = [
  { oid: 2613, inTarget: 'pg_catalog.pg_largeobject', reason: 'large objects are not replicated' },
  { oid: 2995, inTarget: 'pg_catalog.pg_largeobject_metadata', reason: 'large objects are not replicated' },
];

/**
 * Decides whether a migrated clone can follow its target by logical replication, and how, so that it equals a target on which the
 * command ran after all writes. The clone has the target's OIDs and attribute numbers, so that names decide nothing.
 * The counters of the clone must include the command's sessions.
 */
export async function planOnlineSwap(
  target: Session,
  clone: Session,
  facts: RehearsedFacts,
): Promise<OnlineEligibility> {
  const comparison = { ...(facts.now ?? (await readCloneBirth(target, clone))), facts };
  const { tables, leftOut, steps, objections } = await followTables(comparison, clone);
  const followed = new Set(tables.map(({ oid }) => oid));
  const sequences = planSequences(comparison, followed);
  const keys = planForeignKeys(comparison, followed);
  const found = [
    ...objections,
    ...(facts.catchesUp ? [] : filledTables(comparison).map(filledTable)),
    ...sequences.objections,
    ...keys.objections,
    ...changedLabels(comparison),
  ];
  if (found.length > 0) return { eligible: false, objections: found };
  const all = [...steps, ...formerNames(comparison.target, comparison.clone, named(comparison, followed))];
  const guard = facts.catchesUp ? guardOf(tables) : { before: [], after: [] };
  const plan: OnlinePlan = {
    tables,
    leftOut: [...leftOut, ...LARGE_OBJECTS],
    sequences: sequences.copied,
    raise: sequences.raise,
    refresh: comparison.clone.materializedViews.flatMap(({ oid }) => relationName(comparison, oid)),
    newForeignKeys: keys.found,
    notCompared: facts.catchesUp ? filledAgain(comparison, followed) : [],
    before: [...all.map(({ forward }) => forward), ...guard.before],
    after: [...guard.after, ...all.map(({ back }) => back).reverse()],
  };
  const { target: original, clone: newer } = comparison;
  return { eligible: true, plan, wayBack: planWayBack({ original, newer }, followed) };
}

interface Comparison {
  readonly target: OnlineCatalogue;
  readonly clone: OnlineCatalogue;
  readonly facts: RehearsedFacts;
}

/** OIDs of the tables that get their names back: those that are followed, and partitioned ones. */
function named({ target, clone }: Comparison, followed: ReadonlySet<number>): ReadonlySet<number> {
  const partitioned = clone.tables.filter(
    ({ kind, oid }) => kind === 'p' && target.tables.some((table) => table.oid === oid),
  );
  return new Set([...followed, ...partitioned.map(({ oid }) => oid)]);
}

const rowsOf = (table: CatalogueTable | undefined) =>
  table === undefined ? 0 : table.writes.inserted + table.writes.changed;

async function followTables(comparison: Comparison, session: Session) {
  const { target, clone, facts } = comparison;
  const clones = new Map(clone.tables.map((table) => [table.oid, table]));
  const tables: OnlineTable[] = [];
  const leftOut: LeftOutTable[] = [];
  const steps: Reversible[] = [];
  const objections: OnlineObjection[] = [];
  for (const table of target.tables.filter(({ kind }) => kind === 'r')) {
    const there = clones.get(table.oid);
    if (!there) continue;
    const pair = {
      target: table,
      clone: there,
      versionNum: target.versionNum,
      convertsByExpression: facts.convertsByExpression,
    };
    const apart = standsApart(pair, facts);
    if (apart && 'kind' in apart) objections.push(apart);
    else if (apart) leftOut.push(apart);
    else {
      const followed = await followTable(pair, session);
      tables.push(followed.table);
      steps.push(...followed.steps);
      objections.push(...followed.objections);
    }
  }
  return { tables, leftOut, steps, objections };
}

/** Says why the clone does not follow a table: it need not, or it cannot. */
function standsApart(
  { target, clone }: TablePair,
  facts: RehearsedFacts,
): LeftOutTable | OnlineObjection | undefined {
  const subject = shown(target);
  const left = (reason: string) => ({ oid: target.oid, inTarget: qualified(target), reason });
  if (target.persistence === 'u') return left('it is unlogged, and not replicated');
  if (clone.persistence === 'u')
    return { kind: 'persistence', subject, reason: 'it becomes unlogged', remedy: OFFLINE };
  if (!(target.canWrite && clone.canWrite)) {
    const remedy = 'run as a superuser, or as a role with BYPASSRLS';
    return { kind: 'row security', subject, reason: 'row security hides rows from this role', remedy };
  }
  const { birth, derivesRows } = facts;
  const rows = rowsOf(clone) - rowsOf(byOid(birth.clone.tables, target.oid));
  const isEmptied = clone.bytes === 0 && target.bytes > 0 && clone.file !== target.file;
  if (rows === 0 && !isEmptied) return undefined;
  // Rows that were only updated may have got values for the new columns, and nothing else: the comparison finds out.
  const inserted = clone.writes.inserted - (byOid(birth.clone.tables, target.oid)?.writes.inserted ?? 0);
  const fills = !isEmptied && inserted === 0 && newColumns(target, clone).length > 0;
  if (fills && facts.catchesUp) return undefined;
  const wrote = isEmptied ? 'the command emptied it' : `the command wrote ${plural(rows, 'row')} in it`;
  const writtenMeanwhile = rowsOf(target) !== rowsOf(byOid(birth.target.tables, target.oid));
  if (!writtenMeanwhile && !derivesRows) return left(wrote);
  const why = writtenMeanwhile
    ? 'and so did others in the target meanwhile'
    : 'maybe from rows that change in the target meanwhile';
  return {
    kind: 'command wrote',
    subject,
    reason: `${wrote}, ${why}`,
    remedy: `${fills ? BY_SCRIPT : ''}write the rows after the swap, or ${OFFLINE}`,
  };
}

const BY_SCRIPT = 'fill it again with --catch-up, or ';

function newColumns(target: CatalogueTable | undefined, { columns }: CatalogueTable) {
  const known = new Set(target?.columns.map(({ attnum }) => attnum));
  return columns.filter(({ attnum }) => !known.has(attnum));
}

/** Finds the new tables with rows that may come from others. */
function filledTables({ target, clone, facts }: Comparison): CatalogueTable[] {
  if (!facts.derivesRows) return [];
  return clone.tables.filter(
    (table) =>
      table.kind === 'r' && !byOid(target.tables, table.oid) && (rowsOf(table) > 0 || table.bytes > 0),
  );
}

function filledTable(table: CatalogueTable): OnlineObjection {
  return {
    kind: 'new table',
    subject: shown(table),
    reason: 'it is new and the command filled it, maybe from rows that change in the target meanwhile',
    remedy: `${BY_SCRIPT}fill it after the swap, or ${OFFLINE}`,
  };
}

/** Names the parts of the clone that the command filled, and that --catch-up fills again: the target has nothing to compare them with. */
function filledAgain(comparison: Comparison, followed: ReadonlySet<number>): string[] {
  const { target, clone, facts } = comparison;
  const columns = clone.tables
    .filter(({ oid }) => followed.has(oid))
    .filter((table) => rowsOf(table) !== rowsOf(byOid(facts.birth.clone.tables, table.oid)))
    .flatMap((table) =>
      newColumns(byOid(target.tables, table.oid), table).map(
        ({ name }) => `${shown(table)}.${displayName(name)}`,
      ),
    );
  return [...columns, ...filledTables(comparison).map(shown)];
}

/** Decides about the sequences of the follower. */
export function planSequences(
  { target, clone, facts: { birth } }: Comparison,
  followed: ReadonlySet<number>,
) {
  const copied: OnlineSequence[] = [];
  const objections: OnlineObjection[] = [];
  const raise: string[] = [];
  for (const sequence of clone.sequences) {
    const there = byOid(target.sequences, sequence.oid);
    if (!there) {
      raise.push(...raising(sequence, target, followed));
      continue;
    }
    const { oid, columns } = sequence;
    if (sequence.last === byOid(birth.clone.sequences, oid)?.last)
      copied.push({ oid, inTarget: qualified(there), inClone: qualified(sequence) });
    else if (columns.length === 0 || columns.some(({ table }) => followed.has(table)))
      objections.push({
        kind: 'sequence',
        subject: shown(sequence),
        reason: 'the command set or used it, and it may move in the target meanwhile',
        remedy: OFFLINE,
      });
  }
  return { copied, objections, raise };
}

/** A new sequence for a column that exists: the rows of the catch-up may have values beyond it. */
function raising(
  { oid, columns, descends }: CatalogueSequence,
  target: OnlineCatalogue,
  followed: ReadonlySet<number>,
): string[] {
  return columns.flatMap(({ table: tableOid, attnum }) => {
    const table = followed.has(tableOid) ? byOid(target.tables, tableOid) : undefined;
    const column = table?.columns.find((each) => each.attnum === attnum);
    if (!table || !column) return [];
    const [most, beyond] = descends ? ['min', '<'] : ['max', '>'];
    return `SELECT setval(${oid}::regclass, most) FROM (SELECT ${most}(${identifier(column.name)})::int8 AS most FROM ${qualified(table)}) t
 WHERE most ${beyond} coalesce(pg_sequence_last_value(${oid}::regclass), 0)`;
  });
}

function changedLabels({ target, clone }: Comparison): OnlineObjection[] {
  const former = new Map(target.enumLabels.map(({ oid, label }) => [oid, label]));
  return clone.enumLabels.flatMap(({ oid, type, label }): OnlineObjection[] => {
    const before = former.get(oid);
    if (before === undefined || before === label) return [];
    const reason = `its label ${before} is renamed to ${label}, and the target still writes the former one`;
    return [{ kind: 'enum label', subject: type, reason, remedy: OFFLINE }];
  });
}

/** Qualified name, quoted, of a relation of the follower while it follows. */
export function relationName({ target, clone }: Comparison, oid: number): string[] {
  const relation = byOid(clone.relations, oid);
  const schema =
    relation && (byOid(target.schemas, relation.schemaOid) ?? byOid(clone.schemas, relation.schemaOid));
  return relation && schema ? [`${identifier(schema.name)}.${identifier(relation.name)}`] : [];
}
