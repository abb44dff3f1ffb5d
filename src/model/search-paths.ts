import type { ActionOf, StatementFacts } from './statement-actions.ts';
import type { StatementSection } from './statement-model.ts';

/** The schemas that a setting of search_path names. */
export function schemasOf(setting: string): string[] {
  return [...setting.matchAll(/"((?:[^"]|"")*)"|[^\s,"]+/g)].map(
    ([word, quoted]) => quoted?.replaceAll('""', '"') ?? word,
  );
}

interface Change {
  readonly statement: StatementSection;
  readonly action: ActionOf<'set search_path'>;
}

/** The schemas in which each statement looks for names without one, as far as its session says so. */
export class SearchPaths {
  readonly #bySession = new Map<number, Change[]>();
  readonly #byDefault: readonly string[];

  /** @param byDefault what sessions begin with. */
  constructor(
    statements: readonly StatementSection[],
    parsed: ReadonlyMap<number, StatementFacts>,
    byDefault: readonly string[],
  ) {
    this.#byDefault = byDefault;
    for (const statement of statements)
      for (const action of parsed.get(statement.index)?.actions ?? []) {
        if (action.does !== 'set search_path' || statement.error) continue;
        const own = this.#bySession.get(statement.session);
        if (own) own.push({ statement, action });
        else this.#bySession.set(statement.session, [{ statement, action }]);
      }
  }

  at({ session, index, transaction }: StatementSection): readonly string[] {
    const last = this.#bySession
      .get(session)
      ?.findLast(
        ({ statement, action }) =>
          statement.index < index && (!action.local || statement.transaction === transaction),
      );
    return last?.action.schemas ?? this.#byDefault;
  }
}
