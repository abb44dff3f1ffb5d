import type { HazardFacts, RelationFacts, RelationTraffic } from '../model/hazard-facts.ts';
import type { SchemaChange, StatementSection } from '../model/report.ts';
import { SearchPaths } from '../model/search-paths.ts';
import type { Action, ActionOf, Name, SaferTexts } from '../model/statement-actions.ts';
import { blocks } from '../postgres/lock-modes.ts';
import { displayName, lastPart } from '../postgres/sql/quote.ts';
import { type LockSince, locksOf, modeOf, type StatementLock } from './held-locks.ts';
import { LONGEST_SQL } from './thresholds.ts';

/** One action of a statement. */
export interface StatementAction<Does extends Action['does']> {
  readonly statement: StatementSection;
  readonly action: ActionOf<Does>;
}

/** Actions on one relation: its name is in `table`, or in `view` for REFRESH. */
export type OnRelation = Extract<Action, { table: unknown } | { view: unknown }>['does'];

/** An action on a relation that existed before the command. */
export interface RelationAction<Does extends Action['does']> extends StatementAction<Does> {
  readonly relation: string;
  /** The column, constraint, trigger or index that it names, `public.orders.email`; null if it names none. */
  readonly part: string | null;
  readonly context: HazardContext;
}

/** The facts, indexed for the questions of the hazards. */
export class HazardContext {
  readonly facts: HazardFacts;
  readonly #byTransaction = new Map<number, StatementSection[]>();
  /** Locks by transaction and relation, weaker ones before stronger ones. */
  readonly #locks = new Map<number, Map<string, LockSince[]>>();
  readonly #byLastName: ReadonlyMap<string, readonly string[]>;
  readonly #lockedByLastName = new Map<number, ReadonlyMap<string, readonly string[]>>();
  readonly #actionsOf = new Map<Action['does'], readonly unknown[]>();
  readonly #actionsOn = new Map<Action['does'], readonly unknown[]>();
  readonly #derived = new Map<unknown, unknown>();
  readonly #changes: ReadonlySet<string>;
  readonly #former: ReadonlyMap<string, string>;
  readonly #paths: SearchPaths;

  constructor(facts: HazardFacts) {
    this.facts = facts;
    this.#paths = new SearchPaths(facts.statements, facts.parsed, facts.catalogue.searchPath);
    for (const statement of facts.statements) {
      // What many transactions did together, none of them did.
      if (statement.repeated && statement.repeated.transactions > 1) continue;
      const own = this.#byTransaction.get(statement.transaction);
      if (own) own.push(statement);
      else this.#byTransaction.set(statement.transaction, [statement]);
    }
    for (const [transaction, statements] of this.#byTransaction) {
      const locks = locksOf(statements);
      this.#locks.set(transaction, locks);
      this.#lockedByLastName.set(transaction, byLastName(locks.keys()));
    }
    const { relations, renamed } = facts.catalogue;
    this.#byLastName = byLastName([...relations.keys(), ...renamed.keys()]);
    this.#former = new Map([...renamed].map(([former, name]) => [name, former]));
    this.#changes = new Set((facts.schema?.changes ?? []).map(({ verb, object }) => `${verb} ${object}`));
  }

  /** Returns what a function makes of the facts, which it is asked for once. */
  once<T>(derive: (context: HazardContext) => T): T {
    if (!this.#derived.has(derive)) this.#derived.set(derive, derive(this));
    return this.#derived.get(derive) as T;
  }

  /** A relation that existed before the command; locks on relations that the command created block no session. */
  relation(name: string): RelationFacts | undefined {
    return this.facts.catalogue.relations.get(this.#current(name));
  }

  /**
   * A relation that others can reach by the time of the statement: it existed before the command, or the command has made it a
   * partition of such a table in an earlier transaction.
   */
  reachable(name: string, statement: StatementSection): RelationFacts | undefined {
    const known = this.relation(name);
    if (known && !this.isReplaced(name, statement)) return known;
    const by = this.once(partitionsAttached).get(name);
    if (!by || by.transaction === statement.transaction || by.index > statement.index) return undefined;
    const table = this.#tableAfter(name);
    return {
      kind: 'table',
      sizeBytes: table?.bytesAfter ?? null,
      rows: table?.rowsAfter ?? null,
      exact: false,
    };
  }

  /** In bytes, without indexes; for a table that the command made, after it. 0 if it is not known. */
  sizeBytesOf(name: string): number {
    return this.relation(name)?.sizeBytes ?? this.#tableAfter(name)?.bytesAfter ?? 0;
  }

  #tableAfter(name: string) {
    return this.facts.data?.tables.find(({ relation }) => relation === name);
  }

  /** Locks have the names from after the command; statements and the schema comparison may have those from before. */
  #current(name: string): string {
    const { relations, renamed } = this.facts.catalogue;
    return relations.has(name) ? name : (renamed.get(name) ?? name);
  }

  /**
   * Tells if the command has created another relation with this name by the time of the statement, after it renamed or
   * dropped the old one.
   */
  isReplaced(name: string, { index }: StatementSection): boolean {
    const createdAt = this.once(tablesCreated).get(name);
    return createdAt !== undefined && index > createdAt;
  }

  /** Returns the name that a relation had before the command, which the target has. */
  former(relation: string): string {
    return this.#former.get(relation) ?? relation;
  }

  /** The target's traffic on a relation; null if it was not sampled, or there are no statistics for the relation. */
  traffic(relation: string): RelationTraffic | null {
    return this.facts.traffic?.get(this.former(relation)) ?? null;
  }

  /** Changes of the schema comparison, of one verb and kind. */
  changes(verb: SchemaChange['verb'], kind: string): SchemaChange[] {
    return (this.facts.schema?.changes ?? []).filter(
      (change) => change.verb === verb && change.kind === kind,
    );
  }

  /** Tells if the schema comparison contains this change of the object. */
  changed(verb: SchemaChange['verb'], object: string): boolean {
    return this.#changes.has(`${verb} ${object}`);
  }

  /** Actions of one kind in statements that succeeded. */
  actionsOf<Does extends Action['does']>(does: Does): readonly StatementAction<Does>[] {
    const known = this.#actionsOf.get(does);
    if (known) return known as readonly StatementAction<Does>[];
    const found = this.facts.statements
      .filter(({ error }) => error === null)
      .flatMap((each) => this.actionsIn(each, does));
    this.#actionsOf.set(does, found);
    return found;
  }

  /** Actions of one kind on relations that existed before the command, in statements that succeeded. */
  actionsOn<Does extends OnRelation>(does: Does): readonly RelationAction<Does>[] {
    const known = this.#actionsOn.get(does);
    if (known) return known as readonly RelationAction<Does>[];
    const found = this.actionsOf(does).flatMap((each) => {
      const name = nameOn(each.action);
      const relation = name && this.resolve(name, each.statement);
      if (relation === null || this.reachable(relation, each.statement) === undefined) return [];
      const part = partOf(each.action);
      return [{ ...each, relation, part: part && `${relation}.${displayName(part)}`, context: this }];
    });
    this.#actionsOn.set(does, found);
    return found;
  }

  /** Actions of one kind in a statement, whether it succeeded or not. */
  actionsIn<Does extends Action['does']>(statement: StatementSection, does: Does): StatementAction<Does>[] {
    return this.actions(statement)
      .filter((action): action is ActionOf<Does> => action.does === does)
      .map((action) => ({ statement, action }));
  }

  actions(statement: StatementSection): readonly Action[] {
    return this.facts.parsed.get(statement.index)?.actions ?? [];
  }

  /** Returns a form of the statement that blocks others less, as the proposal has it; undefined if there is none, or it is long. */
  saferText({ index }: StatementSection, form: keyof SaferTexts): readonly string[] | undefined {
    const texts = this.facts.parsed.get(index)?.saferTexts?.[form];
    return texts?.every((sql) => sql.length <= LONGEST_SQL && !sql.includes('\n')) ? texts : undefined;
  }

  /** The statements of each transaction, in order. */
  transactions(): Iterable<readonly StatementSection[]> {
    return this.#byTransaction.values();
  }

  inTransactionOf({ transaction }: StatementSection): readonly StatementSection[] {
    return this.#byTransaction.get(transaction) ?? [];
  }

  /** The relations that were there before the command, each once. */
  existing(relations: readonly string[]): string[] {
    return [...new Set(relations)].filter((each) => this.relation(each));
  }

  /** The strongest lock that the transaction holds on a relation when the statement has ended. */
  held({ transaction, index }: StatementSection, relation: string): StatementLock | undefined {
    return this.#locks
      .get(transaction)
      ?.get(this.#current(relation))
      ?.findLast((lock) => lock.index <= index);
  }

  /**
   * Locks on existing relations that the statement itself took, and that block reads or writes.
   * @param atEnd also its last locks, too short to be seen.
   */
  taken(statement: StatementSection, work: 'reads' | 'writes', atEnd = false): StatementLock[] {
    return (statement.locks ?? []).flatMap(({ relation, mode, heldMs, atProductionSize, byRule }) => {
      // Most such statements should not be given up then: they would leave an invalid index.
      if (byRule && heldMs === null && !atEnd) return [];
      const known = modeOf(mode);
      const found = this.reachable(relation, statement);
      // REFRESH CONCURRENTLY takes EXCLUSIVE; since no session writes to a materialized view, it only blocks others like it.
      const isRead = found?.kind === 'materialized view' && known !== 'ACCESS EXCLUSIVE';
      const keepsOut = known !== undefined && blocks(known).includes(work) && found && !isRead;
      return keepsOut ? [{ relation, mode: known, heldMs, atProductionSize }] : [];
    });
  }

  /**
   * Tells if a name in a statement can be that of an object in a schema: it says so, or the search path has the schema.
   * @param within without quotes.
   */
  reaches({ schema }: Name, within: string, statement: StatementSection): boolean {
    return schema === null ? this.#paths.at(statement).includes(within) : schema === within;
  }

  /**
   * Finds the relation that a name in a statement refers to, among those that it holds locked or else among all: the first in
   * the session's search path, as far as that is known.
   */
  resolve({ schema, name }: Name, statement: StatementSection): string {
    if (schema !== null) return displayName(schema, name);
    const last = displayName(name);
    const locked = [
      ...(this.#lockedByLastName.get(statement.transaction)?.get(last) ?? []),
      ...statement.rewrote.filter((relation) => lastPart(relation) === last),
    ].filter((relation) => this.held(statement, relation) || statement.rewrote.includes(relation));
    const named = locked.length > 0 ? locked : (this.#byLastName.get(last) ?? []);
    const inPath = this.#paths
      .at(statement)
      .map((each) => displayName(each, name))
      .find((relation) => named.includes(relation));
    return (
      inPath ?? named.find((relation) => this.relation(relation)) ?? named[0] ?? displayName('public', name)
    );
  }
}

/** The statements that made new tables partitions of tables that existed before. */
function partitionsAttached(context: HazardContext): ReadonlyMap<string, StatementSection> {
  const attached = new Map<string, StatementSection>();
  const attach = (parent: Name, partition: Name, statement: StatementSection) => {
    const isReached = context.relation(context.resolve(parent, statement)) !== undefined;
    if (isReached) attached.set(context.resolve(partition, statement), statement);
  };
  for (const { statement, action } of context.actionsOf('attach partition'))
    attach(action.table, action.partition, statement);
  for (const { statement, action } of context.actionsOf('create table'))
    if (action.partitionOf && !action.ifNotExists) attach(action.partitionOf, action.table, statement);
  return attached;
}

/** The index of the statement that created a table, by table name. */
function tablesCreated(context: HazardContext): ReadonlyMap<string, number> {
  const made = new Map<string, number>();
  for (const { statement, action } of context.actionsOf('create table')) {
    const name = context.resolve(action.table, statement);
    if (action.ifNotExists || made.has(name) || statement.rolledBack) continue;
    made.set(name, statement.index);
  }
  return made;
}

function nameOn(action: Action): Name | null {
  return 'table' in action ? action.table : 'view' in action ? action.view : null;
}

function partOf(action: Action): string | null {
  if ('column' in action) return action.column;
  if ('constraint' in action) return action.constraint;
  if ('trigger' in action) return action.trigger;
  return 'index' in action ? action.index : null;
}

function byLastName(relations: Iterable<string>): Map<string, string[]> {
  const names = new Map<string, string[]>();
  for (const relation of relations) {
    const alike = names.get(lastPart(relation));
    if (alike) alike.push(relation);
    else names.set(lastPart(relation), [relation]);
  }
  return names;
}
