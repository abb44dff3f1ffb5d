import type { DataSection, StatementSection } from '../report/model.ts';

/** Commands that give a relation a new file without making a second relation for it meanwhile. */
const IN_PLACE = /^(TRUNCATE|VACUUM|CLUSTER|REFRESH)/;

/** A relation without a name: it was made and dropped within the transaction, as a table is that is written anew. */
const NAMELESS = /^relation \d+$/;

/**
 * Says of each relation that has another file than before which statement wrote it anew. The file itself is visible to
 * others only after the commit, so it goes by locks: a rewrite holds ACCESS EXCLUSIVE on the relation, itself or by
 * an earlier statement of its transaction, and on the new one that takes its place.
 */
export function withRewrites(statements: StatementSection[], data: DataSection | null): StatementSection[] {
  const rewrote = new Map<number, string[]>();
  for (const { relation, rewritten } of data?.tables ?? []) {
    if (!rewritten) continue;
    const holders = holdersOf(relation, statements);
    const likely = holders.filter(({ tag, locks }) => {
      const makesAnother = locks?.some((lock) => NAMELESS.test(lock.relation)) ?? false;
      return makesAnother || IN_PLACE.test(tag ?? '');
    });
    for (const { index } of holders.length === 1 ? holders : likely)
      rewrote.set(index, [...(rewrote.get(index) ?? []), relation]);
  }
  return statements.map((statement) => ({ ...statement, rewrote: rewrote.get(statement.index) ?? [] }));
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

function locksExclusively({ locks }: StatementSection, relation: string): boolean {
  return locks?.some((lock) => lock.relation === relation && lock.mode === 'ACCESS EXCLUSIVE') ?? false;
}

/** Whether the last part of the relation's name stands in the text, as it would be written there. */
function names(sql: string, relation: string): boolean {
  const name = /(?:"(?:[^"]|"")*"|[^."]+)$/.exec(relation)?.[0] ?? relation;
  const words = sql.match(/"(?:[^"]|"")*"|[\p{L}\p{N}_$]+/gu) ?? [];
  return words.some((word) => word === name || word.toLowerCase() === name || word === `"${name}"`);
}
