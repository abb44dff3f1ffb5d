import type { DataSection, StatementSection } from '../report/model.ts';

/** Commands that give a relation a new file without making a second relation for it meanwhile. */
const IN_PLACE = /^(TRUNCATE|VACUUM|CLUSTER|REFRESH)/;

/** A relation without a name: it was made and dropped within the transaction, as a table is that is written anew. */
const NAMELESS = /^relation \d+$/;

/**
 * Says of each relation that has another file than before which statement wrote it anew. The file itself is visible to
 * others only after the commit, so it goes by locks: a rewrite holds ACCESS EXCLUSIVE on the relation, and on the
 * new one that takes its place.
 */
export function withRewrites(statements: StatementSection[], data: DataSection | null): StatementSection[] {
  const rewrote = new Map<number, string[]>();
  for (const { relation, rewritten } of data?.tables ?? []) {
    if (!rewritten) continue;
    const holders = statements.filter((statement) => locksExclusively(statement, relation));
    const likely = holders.filter(({ tag, locks }) => {
      const makesAnother = locks?.some((lock) => NAMELESS.test(lock.relation)) ?? false;
      return makesAnother || IN_PLACE.test(tag ?? '');
    });
    for (const { index } of holders.length === 1 ? holders : likely)
      rewrote.set(index, [...(rewrote.get(index) ?? []), relation]);
  }
  return statements.map((statement) => ({ ...statement, rewrote: rewrote.get(statement.index) ?? [] }));
}

function locksExclusively({ locks, error }: StatementSection, relation: string): boolean {
  if (error) return false;
  return locks?.some((lock) => lock.relation === relation && lock.mode === 'ACCESS EXCLUSIVE') ?? false;
}
