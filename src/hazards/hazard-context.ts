import type {
  Action,
  ActionOf,
  HazardFacts,
  Name,
  RelationFacts,
  RelationTraffic,
} from '../model/hazard-facts.ts';
import type { SchemaChange, StatementSection } from '../model/report.ts';
import { blocks, LOCK_MODES, type LockMode } from '../postgres/lock-modes.ts';
import { displayName } from '../postgres/sql/quote.ts';
import { lastPart } from './kinds/names.ts';

/** One thing that a statement asked for. */
export interface Met<Does extends Action['does']> {
  readonly statement: StatementSection;
  readonly action: ActionOf<Does>;
}

/** The strongest lock of a transaction on one relation. */
export interface StatementLock {
  readonly relation: string;
  readonly mode: LockMode;
  readonly heldMs: number | null;
}

/** A lock, and from which statement of its transaction on it is held. */
interface Since extends StatementLock {
  readonly index: number;
}

/** The facts, arranged for the questions that hazards ask. */
export class HazardContext {
  readonly facts: HazardFacts;
  readonly #byTransaction = new Map<number, StatementSection[]>();
  /** By transaction and relation, weaker locks before stronger ones. */
  readonly #locks = new Map<number, Map<string, Since[]>>();
  readonly #byLastName: ReadonlyMap<string, readonly string[]>;
  readonly #lockedByLastName = new Map<number, ReadonlyMap<string, readonly string[]>>();
  readonly #met = new Map<Action['does'], readonly unknown[]>();
  readonly #changes: ReadonlySet<string>;
  readonly #former: ReadonlyMap<string, string>;
  #madeAt: ReadonlyMap<string, number> | undefined;

  constructor(facts: HazardFacts) {
    this.facts = facts;
    for (const statement of facts.statements) {
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

  /** What was there before the command: a relation that the command made itself can hurt nobody. */
  relation(name: string): RelationFacts | undefined {
    return this.facts.catalogue.relations.get(this.#current(name));
  }

  /** Locks are told by the names after the command; statements and the schema comparison may have those from before. */
  #current(name: string): string {
    const { relations, renamed } = this.facts.catalogue;
    return relations.has(name) ? name : (renamed.get(name) ?? name);
  }

  /**
   * The name is that of a relation that was there before, and the command has made another one of this name by the time
   * of the statement: the old one was renamed or dropped.
   */
  isReplaced(name: string, { index }: StatementSection): boolean {
    this.#madeAt ??= this.#tablesMade();
    const madeAt = this.#madeAt.get(name);
    return madeAt !== undefined && index > madeAt;
  }

  /** By which statement the command made a table, by its name. */
  #tablesMade(): ReadonlyMap<string, number> {
    const undone = new Set(
      this.facts.transactions
        .filter(({ outcome }) => outcome === 'rolled back')
        .map(({ transaction }) => transaction),
    );
    const made = new Map<string, number>();
    for (const { statement, action } of this.met('create table')) {
      const name = this.resolve(action.table, statement);
      if (action.ifNotExists || made.has(name) || undone.has(statement.transaction)) continue;
      made.set(name, statement.index);
    }
    return made;
  }

  /** null where it was not sampled, or where the target's statistics tell nothing of the relation. */
  traffic(relation: string): RelationTraffic | null {
    const { traffic } = this.facts;
    // The target knows relations by their names from before.
    return traffic?.get(this.#former.get(relation) ?? relation) ?? null;
  }

  /** The schema comparison says so of the object. */
  changed(verb: SchemaChange['verb'], object: string): boolean {
    return this.#changes.has(`${verb} ${object}`);
  }

  /** Statements that succeeded, with what they ask for. */
  met<Does extends Action['does']>(does: Does): readonly Met<Does>[] {
    const known = this.#met.get(does);
    if (known) return known as readonly Met<Does>[];
    const met = this.facts.statements
      .filter(({ error }) => error === null)
      .flatMap((each) => this.asked(each, does));
    this.#met.set(does, met);
    return met;
  }

  /** What one statement asks for, whether it succeeded or not. */
  asked<Does extends Action['does']>(statement: StatementSection, does: Does): Met<Does>[] {
    return this.actions(statement)
      .filter((action): action is ActionOf<Does> => action.does === does)
      .map((action) => ({ statement, action }));
  }

  actions(statement: StatementSection): readonly Action[] {
    return this.facts.parsed.get(statement.index)?.actions ?? [];
  }

  /** The transactions, each with its statements in their order. */
  transactions(): Iterable<readonly StatementSection[]> {
    return this.#byTransaction.values();
  }

  inTransactionOf({ transaction }: StatementSection): readonly StatementSection[] {
    return this.#byTransaction.get(transaction) ?? [];
  }

  /** The strongest lock that the transaction holds on a relation when the statement has ended. */
  held({ transaction, index }: StatementSection, relation: string): StatementLock | undefined {
    return this.#locks
      .get(transaction)
      ?.get(this.#current(relation))
      ?.findLast((lock) => lock.index <= index);
  }

  /** Locks that the statement itself added, on relations that were there before, and that keep out one kind of work. */
  taken(statement: StatementSection, work: 'reads' | 'writes'): StatementLock[] {
    return (statement.locks ?? []).flatMap(({ relation, mode, heldMs }) => {
      const known = modeOf(mode);
      const keepsOut = known !== undefined && blocks(known).includes(work) && this.relation(relation);
      return keepsOut && !this.isReplaced(relation, statement) ? [{ relation, mode: known, heldMs }] : [];
    });
  }

  /**
   * The relation that a statement means by a name: the search path is not known, but the locks are, and else the
   * catalogue.
   */
  resolve({ schema, name }: Name, statement: StatementSection): string {
    if (schema !== null) return displayName(schema, name);
    const last = displayName(name);
    const locked = [
      ...(this.#lockedByLastName.get(statement.transaction)?.get(last) ?? []),
      ...statement.rewrote.filter((relation) => lastPart(relation) === last),
    ].filter((relation) => this.held(statement, relation) || statement.rewrote.includes(relation));
    const named = locked.length > 0 ? locked : (this.#byLastName.get(last) ?? []);
    return named.find((relation) => this.relation(relation)) ?? named[0] ?? displayName('public', name);
  }
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

/** Of one transaction, each lock that is stronger than what it held on the relation before. */
function locksOf(statements: readonly StatementSection[]): Map<string, Since[]> {
  const locks = new Map<string, Since[]>();
  for (const { index, locks: taken } of statements)
    for (const { relation, mode, heldMs } of taken ?? []) {
      const known = modeOf(mode);
      const before = locks.get(relation) ?? [];
      const last = before.at(-1);
      if (!known || (last && strength(known) <= strength(last.mode))) continue;
      locks.set(relation, [...before, { relation, mode: known, heldMs, index }]);
    }
  return locks;
}

function modeOf(mode: string): LockMode | undefined {
  return LOCK_MODES.find((known) => known === mode);
}

function strength(mode: LockMode): number {
  return LOCK_MODES.indexOf(mode);
}
