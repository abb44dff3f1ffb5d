import type { CatalogueFacts, RelationFacts } from '../model/hazard-facts.ts';
import { isToContinue } from '../model/migration-tables.ts';
import type { Profile } from '../model/profile-model.ts';
import type { RehearsalPlan } from './plan.ts';

type Relations = CatalogueFacts['relations'];

/** Tells if the target is a dump with no rows but those that a migration tool continues from: being empty proves nothing there. */
export function isDumpWithoutRows({ target }: Pick<RehearsalPlan, 'target'>, relations: Relations): boolean {
  const tables = [...relations].filter(([name]) => !isToContinue(name));
  return target.from !== null && tables.length > 0 && tables.every(([, { rows }]) => rows === 0);
}

/** The relations of such a dump: their rows are not known. */
export function withUnknownRows(relations: Relations): Relations {
  return new Map(
    [...relations].map(([name, facts]): [string, RelationFacts] => [
      name,
      facts.rows === 0 ? { ...facts, rows: null, exact: false, unfilled: true } : facts,
    ]),
  );
}

/**
 * Lists tables that are empty here and need not be so in production, by their names before the command and after it: those with rows in
 * the profile, and in a dump without rows all that the profile does not have.
 */
export function unfilledTables(
  { relations, renamed }: Pick<CatalogueFacts, 'relations' | 'renamed'>,
  isDump: boolean,
  profile: Profile | null,
): ReadonlySet<string> {
  const former = new Map([...renamed].map(([before, after]) => [after, before]));
  const there = new Map(profile?.relations.map((each) => [each.relation, each]));
  const names = [...relations].flatMap(([name, { rows }]) => {
    const before = former.get(name) ?? name;
    const known = there.get(before);
    const mayHaveRows = known ? known.rows !== 0 && known.sizeBytes !== 0 : isDump;
    return rows === 0 && mayHaveRows ? [name, before] : [];
  });
  return new Set(names);
}
