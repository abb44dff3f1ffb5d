import { listed } from '../format.ts';
import type { Caveat } from '../model/report.ts';
import { SearchPaths } from '../model/search-paths.ts';
import type { LockMode, Name, NamedLock, ReleasedLock, StatementFacts } from '../model/statement-actions.ts';
import type { StatementSection } from '../model/statement-model.ts';
import { blocks } from '../postgres/lock-modes.ts';
import { displayName } from '../postgres/sql/quote.ts';
import type { BodyLocks } from './locks-in-bodies.ts';
import type { RelationTree } from './relation-names.ts';
import { longestUnseenMs } from './sampler.ts';

/*
 * A statement that commits within itself has released its locks when it has ended, and a sampler sees only those that last. The table
 * of statements says which ones it takes, by PostgreSQL's documentation and sources.
 */

interface RuledLock {
  readonly relation: number;
  readonly mode: LockMode;
  /** Taken for a moment in its last transaction. */
  readonly atEnd?: true;
  /** It is one of an index that is no longer used by then. */
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
  /** Locks of the bodies of statements that may commit within. */
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
    const path = paths.at(statement);
    const released = statement.error ? [] : (parsed.get(statement.index)?.releases ?? []);
    // In a block ANALYZE keeps its locks. What is done to the partitions of a table commits after each, which its text does not tell.
    const own =
      statement.exactness === 'exact'
        ? released.filter(({ partitions }) => partitions === 'if any')
        : released;
    const ruled = [
      ...rules.released(own, path),
      ...rules.within(bodies.get(statement.index)?.certain ?? [], path),
    ];
    const locks = statement.locks ?? [];
    const isKnown = (lock: RuledLock) =>
      locks.some(({ relation, mode }) => relation === tree.get(lock.relation)?.name && mode === lock.mode);
    const missing = ruled.filter((lock) => !isKnown(lock));
    if (ruled.length === 0) return statement;
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

/** Lists the locks of procedures and blocks that may commit which were released before their end, and are not listed. */
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

  /** Finds the relations of the locks that a statement releases before its end. */
  released(locks: readonly ReleasedLock[], path: readonly string[]): RuledLock[] {
    return locks.flatMap(({ partitions, indexesAlone, atEnd, blocksNobody, ...lock }) => {
      const named = this.#find(lock.relation, path);
      const all = partitions ? named.flatMap((oid) => this.#withParts(oid)) : named;
      if (partitions === 'if any' && all.length === 1) return [];
      const oids = partitions === 'alone' ? all.filter((oid) => !named.includes(oid)) : all;
      const own = indexesAlone
        ? on(
            oids.flatMap((oid) => (this.#tree.get(oid)?.table == null ? this.#indexesOf(oid) : [oid])),
            lock.mode,
          )
        : oids.flatMap((oid) => this.#locked(oid, lock));
      return own.map((each) => ({ ...each, ...(atEnd && { atEnd }), ...(blocksNobody && { blocksNobody }) }));
    });
  }

  /** Finds the relations that the statements of a body lock, each lock once. */
  within(named: readonly NamedLock[], path: readonly string[]): RuledLock[] {
    const all = named.flatMap((lock) =>
      this.#find(lock.relation, path).flatMap((oid) => this.#locked(oid, lock)),
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

  #locked(oid: number, { mode, ofTable, ofIndexes }: NamedLock): RuledLock[] {
    const table = this.#tree.get(oid)?.table;
    return [
      ...on([oid], mode),
      ...(ofTable && table != null ? on([table], ofTable) : []),
      ...(ofIndexes ? on(this.#indexesOf(oid), ofIndexes) : []),
    ];
  }

  /** Which indexes of a partitioned table the planner opens depends on the version. */
  #indexesOf(oid: number): readonly number[] {
    return this.#tree.get(oid)?.kind === 'p' ? [] : (this.#indexes.get(oid) ?? []);
  }
}

function on(relations: readonly number[], mode: LockMode): RuledLock[] {
  return relations.map((relation) => ({ relation, mode }));
}

function note<Key>(lists: Map<Key, number[]>, key: Key, oid: number): void {
  const list = lists.get(key);
  if (list) list.push(oid);
  else lists.set(key, [oid]);
}
