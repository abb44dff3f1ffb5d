import type { DataSection, StatementSection } from '../model/report.ts';
import type { Action, StatementFacts } from '../model/statement-actions.ts';
import { displayName, lastPart } from '../postgres/sql/quote.ts';

/** Actions that give a relation a new file without making a second relation for it in the meantime. */
const IN_PLACE: ReadonlySet<Action['does']> = new Set(['truncate', 'vacuum', 'cluster', 'refresh', 'repack']);

/** A relation without a name: it was made and dropped within the transaction, as the copy is that a rewrite makes. */
const NAMELESS = /^relation \d+$/;

/**
 * Says of each relation that has another file than before which statement rewrote it. The file itself is visible to
 * others only after the commit, so it goes by locks: a rewrite holds ACCESS EXCLUSIVE on the relation, itself or by
 * an earlier statement of its transaction, and on the new one that takes its place.
 */
export function withRewrites(
  statements: StatementSection[],
  parsed: ReadonlyMap<number, StatementFacts>,
  data: DataSection | null,
): StatementSection[] {
  const actionsOf = ({ index }: StatementSection) => parsed.get(index)?.actions ?? [];
  const rewrote = new Map<number, string[]>();
  const rewritten = (data?.tables ?? []).flatMap((table) => (table.rewritten ? [table.relation] : []));
  for (const relation of rewritten) {
    const holders = holdersOf(relation, statements);
    const likely = holders.filter((statement) => {
      const makesAnother = statement.locks?.some((lock) => NAMELESS.test(lock.relation)) ?? false;
      return makesAnother || actionsOf(statement).some(({ does }) => IN_PLACE.has(does));
    });
    const vacuumed = vacuums(relation, statements, actionsOf);
    // It may name no schema, and other schemas may have a table of that name.
    const certain = isOnly(relation, rewritten) ? vacuumed.naming : [];
    const found =
      certain.length > 0
        ? [...likely, ...certain]
        : holders.length === 0
          ? vacuumed.naming.length > 0
            ? vacuumed.naming
            : vacuumed.all
          : holders.length === 1
            ? holders
            : likely;
    for (const { index } of new Set(found)) rewrote.set(index, [...(rewrote.get(index) ?? []), relation]);
  }
  return statements.map((statement) => ({ ...statement, rewrote: rewrote.get(statement.index) ?? [] }));
}

function isOnly(relation: string, among: readonly string[]): boolean {
  return among.filter((each) => lastPart(each) === lastPart(relation)).length === 1;
}

/** Each statement tells only the locks that it added: one that names a relation which is locked already holds it too. */
function holdersOf(relation: string, statements: readonly StatementSection[]): StatementSection[] {
  const lockedIn = new Set<number>();
  return statements.filter((statement) => {
    if (statement.error) return false;
    const locksItself = locksExclusively(statement, relation);
    const holdsAlready = lockedIn.has(statement.transaction) && names(statement.sql, relation);
    if (locksItself) lockedIn.add(statement.transaction);
    return locksItself || holdsAlready;
  });
}

/**
 * VACUUM FULL and REPACK run in transactions of their own, whose locks are gone with their end: those that name the relation, and
 * those that name none.
 */
function vacuums(
  relation: string,
  statements: readonly StatementSection[],
  actionsOf: (statement: StatementSection) => readonly Action[],
): { readonly naming: StatementSection[]; readonly all: StatementSection[] } {
  const full = statements.flatMap((statement) =>
    statement.error
      ? []
      : actionsOf(statement).flatMap((action) => {
          if (action.does === 'vacuum' && action.full) return [{ statement, tables: action.tables }];
          if (action.does === 'repack') return [{ statement, tables: action.table ? [action.table] : [] }];
          return [];
        }),
  );
  const naming = full.filter(({ tables }) =>
    tables.some(({ name }) => displayName(name) === lastPart(relation)),
  );
  const all = full.filter(({ tables }) => tables.length === 0);
  return { naming: naming.map(({ statement }) => statement), all: all.map(({ statement }) => statement) };
}

function locksExclusively({ locks }: StatementSection, relation: string): boolean {
  return locks?.some((lock) => lock.relation === relation && lock.mode === 'ACCESS EXCLUSIVE') ?? false;
}

/** Tells if the last part of the relation's name stands in the text, as it would be written there. */
function names(sql: string, relation: string): boolean {
  const name = lastPart(relation);
  const words = sql.match(/"(?:[^"]|"")*"|[\p{L}\p{N}_$]+/gu) ?? [];
  return words.some((word) => word === name || word.toLowerCase() === name || word === `"${name}"`);
}
