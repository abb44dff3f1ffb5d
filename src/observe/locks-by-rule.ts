import { listed } from '../format.ts';
import type { Caveat } from '../model/report.ts';
import { SearchPaths } from '../model/search-paths.ts';
import type { Action, Name, StatementFacts } from '../model/statement-actions.ts';
import type { StatementSection } from '../model/statement-model.ts';
import { blocks, type LockMode } from '../postgres/lock-modes.ts';
import type { NamedLock } from '../postgres/sql/named-locks.ts';
import { displayName } from '../postgres/sql/quote.ts';
import type { BodyLocks } from './locks-in-bodies.ts';
import type { RelationTree } from './relation-names.ts';
import { longestUnseenMs } from './sampler.ts';

/*
 * What commits within itself has released its locks when it has ended, and a sampler sees only those that last. PostgreSQL's
 * documentation and sources say which ones it takes: "Explicit Locking", ALTER TABLE (DETACH CONCURRENTLY), ReindexRelationConcurrently(),
 * index_drop(), vacuum_rel(), cluster_multiple_rels().
 */

interface RuledLock {
  readonly relation: number;
  readonly mode: LockMode;
  /** Taken for a moment in its last transaction. */
  readonly atEnd?: true;
  /** Of an index that is no longer used by then. */
  readonly blocksNobody?: true;
  /** Released by a COMMIT within: the sampler would have seen it if it had been held for longer. */
  readonly isReleased?: true;
}

export interface RulesInput {
  readonly parsed: ReadonlyMap<number, StatementFacts>;
  readonly tree: RelationTree;
  /** OIDs of relations that the command made. */
  readonly made: ReadonlySet<number>;
  /** The search_path that sessions begin with. */
  readonly searchPath: readonly string[];
  /** What statements that may commit within lock by their bodies. */
  readonly bodies?: ReadonlyMap<number, BodyLocks>;
}

/** Adds to the locks that were sampled those that PostgreSQL takes by rule. */
export function withLocksByRule(
  statements: readonly StatementSection[],
  { parsed, tree, made, searchPath, bodies = new Map() }: RulesInput,
): StatementSection[] {
  const paths = new SearchPaths(statements, parsed, searchPath);
  const rules = new Rules(tree);
  return statements.map((statement) => {
    const actions = statement.error ? [] : (parsed.get(statement.index)?.actions ?? []);
    const path = paths.at(statement);
    const ruled = [
      ...actions.flatMap((action) => rules.of(action, statement, path)),
      ...rules.within(bodies.get(statement.index)?.certain ?? [], path),
    ];
    const locks = statement.locks ?? [];
    const isKnown = (lock: RuledLock) =>
      locks.some(({ relation, mode }) => relation === tree.get(lock.relation)?.name && mode === lock.mode);
    const missing = ruled.filter((lock) => !isKnown(lock));
    if (ruled.length === 0 || (statement.exactness === 'exact' && missing.length === 0)) return statement;
    const added = missing.map((lock) => ({
      relation: tree.get(lock.relation)?.name ?? `relation ${lock.relation}`,
      mode: lock.mode,
      acquiredBy: statement.tag ?? '',
      heldMs: heldMsOf(lock, statement),
      blocks: lock.blocksNobody || made.has(lock.relation) ? [] : blocks(lock.mode),
      byRule: true,
    }));
    return { ...statement, exactness: 'sampled' as const, locks: [...locks, ...added] };
  });
}

function heldMsOf({ atEnd, isReleased }: RuledLock, { durationMs }: StatementSection): number | null {
  if (atEnd) return null;
  return isReleased ? longestUnseenMs(durationMs) : durationMs;
}

const COMMITS_WITHIN = 'may commit within';

/** For procedures and blocks that may commit: which of the locks that they released before their end are not listed. */
export function releasedCaveats(
  statements: readonly StatementSection[],
  { parsed, tree, searchPath, bodies = new Map() }: RulesInput,
): Caveat[] {
  if (bodies.size === 0) return [];
  const paths = new SearchPaths(statements, parsed, searchPath);
  const rules = new Rules(tree);
  const byReason = new Map<string, number[]>();
  for (const statement of statements) {
    const body = bodies.get(statement.index);
    if (!body) continue;
    const certain = rules.within(body.certain, paths.at(statement)).map((lock) => rules.words(lock));
    const possible = rules.within(body.possible, paths.at(statement)).map((lock) => rules.words(lock));
    const more = [...new Set(possible)].filter((lock) => !certain.includes(lock));
    note(byReason, reasonFor([...new Set(body.unread)], more), statement.index);
  }
  return [...byReason].map(([reason, indexes]) => ({
    path: 'statements[].locks',
    kind: 'unmeasured',
    reason: `${indexes.length === 1 ? 'statement' : 'statements'} ${listed(indexes.map(String))} ${COMMITS_WITHIN}: ${reason}`,
  }));
}

function reasonFor(unread: readonly string[], possible: readonly string[]): string {
  const left = [...unread, 'what functions, triggers, foreign keys and partitions lock'];
  return [
    'of the locks that such a procedure or block releases before its end, those that lasted about 20 ms or less were not seen; those of the relations that its statements name are listed by rule',
    `not listed: ${listed(left)}`,
    ...(possible.length === 0 ? [] : [`if its branches and loops were entered: ${listed(possible)}`]),
  ].join('; ');
}

class Rules {
  readonly #tree: RelationTree;
  readonly #byName = new Map<string, number[]>();
  readonly #indexes = new Map<number, number[]>();
  readonly #parts = new Map<number, number[]>();

  constructor(tree: RelationTree) {
    this.#tree = tree;
    for (const [oid, { name, kind, table, parent }] of tree) {
      note(this.#byName, name, oid);
      // A partitioned index has no file that anything is done to.
      if (table !== null && kind === 'i') note(this.#indexes, table, oid);
      if (parent !== null) note(this.#parts, parent, oid);
    }
  }

  /** Only of statements that commit within themselves, or may do so; nothing of others. */
  of(action: Action, { tag, exactness }: StatementSection, path: readonly string[]): RuledLock[] {
    const find = (name: Name | null) => this.#find(name, path);
    switch (action.does) {
      case 'create index':
        return action.concurrently ? locks(find(action.table), 'SHARE UPDATE EXCLUSIVE') : [];
      case 'drop':
        return action.concurrently ? action.objects.flatMap((name) => this.#rebuilt(find(name))) : [];
      case 'detach partition':
        return action.concurrently
          ? [
              ...locks(find(action.table), 'SHARE UPDATE EXCLUSIVE'),
              ...locks(find(action.partition), 'SHARE UPDATE EXCLUSIVE'),
              ...find(action.partition)
                .flatMap((oid) => this.#withIndexes(oid, 'ACCESS EXCLUSIVE'))
                .map((lock) => ({ ...lock, atEnd: true as const })),
            ]
          : [];
      case 'reindex': {
        const all = find(action.object).flatMap((oid) => this.#withParts(oid));
        // ReindexPartitions() locks the partitions in this mode to list them, whatever follows.
        if (action.concurrently)
          return [...all.flatMap((oid) => this.#rebuilt([oid])), ...locks(all.slice(1), 'SHARE')];
        return all.length > 1 ? all.flatMap((oid) => this.#reindexed(oid)) : [];
      }
      case 'cluster': {
        const all = find(action.table).flatMap((oid) => this.#withParts(oid));
        return all.length > 1 ? all.flatMap((oid) => this.#withIndexes(oid, 'ACCESS EXCLUSIVE')) : [];
      }
      case 'vacuum': {
        if (exactness === 'exact') return [];
        const named = action.tables.flatMap(find);
        const all = named.flatMap((oid) => this.#withParts(oid));
        const isAnalyze = tag === 'ANALYZE';
        // The sample of a partitioned table is taken from its partitions.
        const read = isAnalyze ? all.filter((oid) => !named.includes(oid)) : [];
        return [
          ...all.flatMap((oid) => this.#vacuumed(oid, isAnalyze ? 'analyze' : action.full)),
          ...locks(read, 'ACCESS SHARE'),
        ];
      }
      default:
        return [];
    }
  }

  /** What the statements of a body lock, each lock once. */
  within(named: readonly NamedLock[], path: readonly string[]): RuledLock[] {
    const all = named.flatMap(({ relation, mode, ofTable, ofIndexes }) =>
      this.#find(relation, path).flatMap((oid) => {
        const { table, kind } = this.#tree.get(oid) ?? {};
        // Which indexes of a partitioned table the planner opens depends on the version.
        const indexes = kind === 'p' ? [] : (this.#indexes.get(oid) ?? []);
        return [
          ...locks([oid], mode),
          ...(ofTable && table ? locks([table], ofTable) : []),
          ...(ofIndexes ? locks(indexes, ofIndexes) : []),
        ];
      }),
    );
    const once = new Map(all.map((lock) => [`${lock.relation} ${lock.mode}`, lock]));
    return [...once.values()].map((lock) => ({ ...lock, isReleased: true }));
  }

  words({ relation, mode }: RuledLock): string {
    return `${mode} on ${this.#tree.get(relation)?.name ?? `relation ${relation}`}`;
  }

  /** The relation of that name in the first schema of the path that has one. */
  #find(name: Name | null, path: readonly string[]): number[] {
    if (name === null) return [];
    const schemas = name.schema === null ? path : [name.schema];
    for (const schema of schemas) {
      const found = this.#byName.get(displayName(schema, name.name));
      // What was there before comes first, what took its name later follows.
      if (found) return found.slice(0, 1);
    }
    return [];
  }

  #withParts(oid: number): number[] {
    return [oid, ...(this.#parts.get(oid) ?? []).flatMap((part) => this.#withParts(part))];
  }

  #withIndexes(oid: number, mode: LockMode, ofIndexes = mode): RuledLock[] {
    return [{ relation: oid, mode }, ...locks(this.#indexes.get(oid) ?? [], ofIndexes)];
  }

  /** A table with its indexes, or an index with its table, that are replaced concurrently: the old index goes at the end. */
  #rebuilt(oids: readonly number[]): RuledLock[] {
    return oids.flatMap((oid) => {
      const table = this.#tree.get(oid)?.table ?? oid;
      const indexes = table === oid ? (this.#indexes.get(oid) ?? []) : [oid];
      return [
        ...locks([table, ...indexes], 'SHARE UPDATE EXCLUSIVE'),
        ...locks(indexes, 'ACCESS EXCLUSIVE', { atEnd: true, blocksNobody: true }),
      ];
    });
  }

  #reindexed(oid: number): RuledLock[] {
    const table = this.#tree.get(oid)?.table;
    if (table == null) return this.#withIndexes(oid, 'SHARE', 'ACCESS EXCLUSIVE');
    return [...locks([table], 'SHARE'), ...locks([oid], 'ACCESS EXCLUSIVE')];
  }

  #vacuumed(oid: number, how: boolean | 'analyze'): RuledLock[] {
    if (how === 'analyze') return this.#withIndexes(oid, 'SHARE UPDATE EXCLUSIVE', 'ACCESS SHARE');
    if (how) return this.#withIndexes(oid, 'ACCESS EXCLUSIVE');
    return this.#withIndexes(oid, 'SHARE UPDATE EXCLUSIVE', 'ROW EXCLUSIVE');
  }
}

function locks(
  relations: readonly number[],
  mode: LockMode,
  more: Pick<RuledLock, 'atEnd' | 'blocksNobody'> = {},
): RuledLock[] {
  return relations.map((relation) => ({ relation, mode, ...more }));
}

function note<Key>(lists: Map<Key, number[]>, key: Key, oid: number): void {
  const list = lists.get(key);
  if (list) list.push(oid);
  else lists.set(key, [oid]);
}
