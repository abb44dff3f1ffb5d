import { plural } from '../../format.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import { followTable, OFFLINE, qualified, shown, type TablePair } from './follow-table.ts';
import { formerNames, type Reversible } from './former-names.ts';
import {
  type CatalogueForeignKey,
  type CatalogueSequence,
  type CatalogueTable,
  type OnlineCatalogue,
  readOnlineCatalogue,
} from './online-catalogue.ts';
import type {
  LeftOutTable,
  NewForeignKey,
  OnlineEligibility,
  OnlineObjection,
  OnlinePlan,
  OnlineSequence,
  OnlineTable,
} from './online-plan.ts';
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
    ...newTables(comparison),
    ...sequences.objections,
    ...keys.objections,
    ...changedLabels(comparison),
  ];
  if (found.length > 0) return { eligible: false, objections: found };
  const all = [...steps, ...formerNames(comparison.target, comparison.clone, named(comparison, followed))];
  const plan: OnlinePlan = {
    tables,
    leftOut: [...leftOut, ...LARGE_OBJECTS],
    sequences: sequences.copied,
    raise: sequences.raise,
    refresh: comparison.clone.materializedViews.flatMap(({ oid }) => relationName(comparison, oid)),
    newForeignKeys: keys.found,
    before: all.map(({ forward }) => forward),
    after: all.map(({ back }) => back).reverse(),
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

const byOid = <T extends { readonly oid: number }>(rows: readonly T[], oid: number) =>
  rows.find((row) => row.oid === oid);

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
    remedy: `write the rows after the swap, or ${OFFLINE}`,
  };
}

function newTables({ target, clone, facts }: Comparison): OnlineObjection[] {
  if (!facts.derivesRows) return [];
  const known = new Set(target.tables.map(({ oid }) => oid));
  return clone.tables
    .filter((table) => table.kind === 'r' && !known.has(table.oid) && (rowsOf(table) > 0 || table.bytes > 0))
    .map((table) => ({
      kind: 'new table',
      subject: shown(table),
      reason: 'it is new and the command filled it, maybe from rows that change in the target meanwhile',
      remedy: `fill it after the swap, or ${OFFLINE}`,
    }));
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

/** Finds the foreign keys that only the follower has. */
export function planForeignKeys({ target, clone }: Comparison, followed: ReadonlySet<number>) {
  const found: NewForeignKey[] = [];
  const objections: OnlineObjection[] = [];
  const changing = (oid: number) => followed.has(oid) || byOid(clone.tables, oid)?.kind === 'p';
  for (const key of clone.foreignKeys) {
    if (byOid(target.foreignKeys, key.oid) || !(changing(key.table) || changing(key.parent))) continue;
    const [table, parent] = [key.table, key.parent].map((oid) => byOid(clone.tables, oid));
    if (!table || !parent) continue;
    const name = `${key.name} of ${shown(table)}`;
    if (key.temporal)
      objections.push({
        kind: 'foreign key',
        subject: name,
        reason: 'it is new and has a PERIOD, and no query finds the rows that violate it',
        remedy: OFFLINE,
      });
    else found.push({ name, orphans: orphansOfNew(key, table, parent, target) });
  }
  return { found, objections };
}

function orphansOfNew(
  { columns, keys }: CatalogueForeignKey,
  table: CatalogueTable,
  parent: CatalogueTable,
  target: OnlineCatalogue,
): string {
  const nameIn = (of: CatalogueTable, attnum: number) => {
    const former = byOid(target.tables, of.oid)?.columns.find((column) => column.attnum === attnum);
    return identifier((former ?? of.columns.find((column) => column.attnum === attnum))?.name ?? '');
  };
  const nameOf = (of: CatalogueTable) => qualified(byOid(target.tables, of.oid) ?? of);
  const child = columns.map((attnum) => `c.${nameIn(table, attnum)}`);
  const present = child.map((column) => `${column} IS NOT NULL`).join(' AND ');
  const equal = keys.map((attnum, at) => `p.${nameIn(parent, attnum)} = ${child[at]}`).join(' AND ');
  return `SELECT count(*)::float8 AS orphans FROM ${table.kind === 'r' ? 'ONLY ' : ''}${nameOf(table)} c
 WHERE ${present} AND NOT EXISTS (SELECT FROM ${nameOf(parent)} p WHERE ${equal})`;
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
