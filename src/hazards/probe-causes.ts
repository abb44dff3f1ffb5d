import { listed } from '../format.ts';
import { isBookkeeping } from '../model/migration-tables.ts';
import type { ProbeDifference } from '../model/probe-difference.ts';
import type { StatementSection } from '../model/report.ts';
import type { StatementEffect } from '../model/statement-actions.ts';
import type { HazardContext } from './hazard-context.ts';

/** Lock modes of statements that only read. */
const OF_READERS = new Set(['ACCESS SHARE', 'ROW SHARE']);

/**
 * Returns the indexes of the statements that may have changed the result of a probe: only the one that a replay has found, if there was a
 * replay.
 */
export function causesOf(context: HazardContext, probe: ProbeDifference): readonly number[] {
  const known = context.facts.causes?.get(probe);
  if (known !== undefined) return [known];
  const names = [probe.relation, ...probe.reads, probe.probe.replace(/^value of /, '')];
  return statementsChanging(context, names).map(({ index }) => index);
}

/** Returns the statements that may have changed relations: they locked one of them, or changed another object, such as a function. */
export function statementsChanging(context: HazardContext, names: readonly string[]): StatementSection[] {
  const { renamed } = context.facts.catalogue;
  const reached = new Set(names.flatMap((name) => [name, renamed.get(name) ?? name]));
  const isReached = ({ relation, indexOf = relation, mode }: Lock) =>
    !OF_READERS.has(mode) && (reached.has(relation) || reached.has(indexOf));
  return context
    .once(leavingStatements)
    .filter(
      (statement) =>
        statement.locks === null || statement.locks.some(isReached) || changesNoRelation(context, statement),
    );
}

const MOST_CAUSES = 5;

/** The only possible cause; null if there are several. */
export function onlyOf(causes: readonly number[]): number | null {
  const [only, ...more] = causes;
  return more.length === 0 ? (only ?? null) : null;
}

/** Names the possible causes at the end of an evidence, if they are few. */
export function causeWords(causes: readonly number[]): string {
  const isFew = causes.length > 1 && causes.length <= MOST_CAUSES;
  return isFew ? `; since one of the statements ${listed(causes.map(String))}` : '';
}

type Lock = NonNullable<StatementSection['locks']>[number];

/** Statements that left something else than a note of the migration tool's. */
function leavingStatements({ facts }: HazardContext): StatementSection[] {
  return facts.statements.filter(
    ({ index, error, rolledBack, locks }) =>
      error === null &&
      !rolledBack &&
      isLeaving(facts.parsed.get(index)?.effect, locks) &&
      !(locks?.length && locks.every(({ relation, indexOf }) => isBookkeeping(indexOf ?? relation))),
  );
}

/** A query may call a function that writes, which shows in its locks. */
function isLeaving(effect: StatementEffect | undefined, locks: StatementSection['locks']): boolean {
  return effect !== 'none' && (effect !== 'reads' || locks !== null);
}

function changesNoRelation({ facts }: HazardContext, { index, locks }: StatementSection): boolean {
  const { effect = 'unknown' } = facts.parsed.get(index) ?? {};
  const isSchema = effect === 'schema' || effect === 'cluster' || effect === 'unknown';
  return (
    isSchema && !locks?.some(({ relation, mode }) => !OF_READERS.has(mode) && !relation.startsWith('pg_'))
  );
}
