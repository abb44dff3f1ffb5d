export interface Migration {
  readonly name: string;
  readonly atomic: boolean;
  readonly statements: readonly string[];
}

interface Tables {
  readonly changed: readonly string[];
  readonly referenced: readonly string[];
}

/**
 * Migrations of one batch change tables that no other one of it touches, so that one rehearsal tells of all of them. A
 * migration never goes before an earlier one that has to do with its tables.
 */
export function batches(migrations: readonly Migration[]): Migration[][] {
  const all: Migration[][] = [];
  let waiting = [...migrations];
  while (waiting.length > 0) {
    const changed = new Set<string>();
    const referencedLater = new Set<string>();
    const apps = new Set<string>();
    const batch: Migration[] = [];
    const deferred: Migration[] = [];
    for (const migration of waiting) {
      const tables = tablesOf(migration);
      const conflicts =
        [...tables.changed, ...tables.referenced].some((table) => changed.has(table)) ||
        tables.changed.some((table) => referencedLater.has(table)) ||
        // What leads to a table goes first, and is not always told by its name.
        (apps.has(appOf(migration)) && migration.statements.some((sql) => sql.startsWith('DROP TABLE')));
      (conflicts ? deferred : batch).push(migration);
      apps.add(appOf(migration));
      for (const table of tables.changed) changed.add(table);
      if (conflicts) for (const table of tables.referenced) referencedLater.add(table);
    }
    all.push(batch);
    waiting = deferred;
  }
  return all;
}

/** The first migration of each app in one batch, then the second ones: no app touches another one's tables. */
export function sideBySide(migrations: readonly Migration[]): Migration[][] {
  const all: Migration[][] = [];
  const seen = new Map<string, number>();
  for (const migration of migrations) {
    const at = seen.get(appOf(migration)) ?? 0;
    seen.set(appOf(migration), at + 1);
    all[at] = [...(all[at] ?? []), migration];
  }
  return all;
}

function appOf({ name }: Migration): string {
  return name.slice(0, name.indexOf('.'));
}

export function tablesOf({ statements }: Migration): Tables {
  const text = statements.join(';\n');
  const named = (pattern: RegExp) => [
    ...new Set([...text.matchAll(pattern)].map(([, quoted, plain]) => quoted ?? plain ?? '')),
  ];
  const changed = named(
    /\b(?:TABLE|ON|UPDATE|RENAME TO)\s+(?:IF (?:NOT )?EXISTS\s+)?(?:"(\w+)"|public\.(\w+))/gi,
  );
  const referenced = named(/\bREFERENCES\s+"(\w+)"/gi).filter((table) => !changed.includes(table));
  return { changed, referenced };
}
