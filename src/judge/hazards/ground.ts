import type { StatementSection } from '../../report/model.ts';
import { shown } from '../../sql.ts';
import type { Action, ActionOf, Facts, Name, RelationFacts, Traffic } from '../facts.ts';
import { blocks, LOCK_MODES, type LockMode } from '../lock-modes.ts';
import { lastPart } from './names.ts';

/** One thing that a statement asked for. */
export interface Met<Does extends Action['does']> {
  readonly statement: StatementSection;
  readonly action: ActionOf<Does>;
}

/** The strongest lock of a transaction on one relation. */
export interface HeldLock {
  readonly relation: string;
  readonly mode: LockMode;
  readonly heldMs: number | null;
}

/** The facts, arranged for the questions that hazards ask. */
export class Ground {
  readonly facts: Facts;
  readonly #byTransaction = new Map<number, StatementSection[]>();
  /** By relation, all that its transaction holds when a statement has ended. */
  readonly #held = new Map<number, ReadonlyMap<string, HeldLock>>();
  readonly #byLastName = new Map<string, string[]>();

  constructor(facts: Facts) {
    this.facts = facts;
    for (const statement of facts.statements) {
      const own = this.#byTransaction.get(statement.transaction);
      if (own) own.push(statement);
      else this.#byTransaction.set(statement.transaction, [statement]);
    }
    for (const statements of this.#byTransaction.values()) this.#addUp(statements);
    for (const relation of facts.catalogue.relations.keys()) {
      const name = lastPart(relation);
      this.#byLastName.set(name, [...(this.#byLastName.get(name) ?? []), relation]);
    }
  }

  /** What was there before the command: a relation that the command made itself can hurt nobody. */
  relation(name: string): RelationFacts | undefined {
    return this.facts.catalogue.relations.get(name);
  }

  /** null where it was not sampled, or where the target's statistics tell nothing of the relation. */
  traffic(relation: string): Traffic | null {
    return this.facts.traffic?.get(relation) ?? null;
  }

  /** Statements that succeeded, with what they ask for. */
  met<Does extends Action['does']>(does: Does): Met<Does>[] {
    return this.facts.statements
      .filter(({ error }) => error === null)
      .flatMap((each) => this.asked(each, does));
  }

  /** What one statement asks for, whether it succeeded or not. */
  asked<Does extends Action['does']>(statement: StatementSection, does: Does): Met<Does>[] {
    const actions = this.facts.parsed.get(statement.index)?.actions ?? [];
    return actions
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
  held(statement: StatementSection, relation: string): HeldLock | undefined {
    return this.#held.get(statement.index)?.get(relation);
  }

  /** Locks that the statement itself added, on relations that were there before, and that keep out one kind of work. */
  taken(statement: StatementSection, work: 'reads' | 'writes'): HeldLock[] {
    return (statement.locks ?? []).flatMap(({ relation, mode, heldMs }) => {
      const known = modeOf(mode);
      const keepsOut = known !== undefined && blocks(known).includes(work) && this.relation(relation);
      return keepsOut ? [{ relation, mode: known, heldMs }] : [];
    });
  }

  /**
   * The relation that a statement means by a name: the search path is not known, but the locks are, and else the
   * catalogue.
   */
  resolve({ schema, name }: Name, statement: StatementSection): string {
    if (schema !== null) return shown(schema, name);
    const last = shown(name);
    const touched = [...(this.#held.get(statement.index)?.keys() ?? []), ...statement.rewrote];
    const locked = touched.filter((relation) => lastPart(relation) === last);
    const named = locked.length > 0 ? locked : (this.#byLastName.get(last) ?? []);
    return named.find((relation) => this.relation(relation)) ?? named[0] ?? shown('public', name);
  }

  #addUp(statements: readonly StatementSection[]): void {
    let held: ReadonlyMap<string, HeldLock> = new Map();
    for (const statement of statements) {
      for (const { relation, mode, heldMs } of statement.locks ?? []) {
        const known = modeOf(mode);
        const before = held.get(relation);
        if (known && (!before || strength(known) > strength(before.mode)))
          held = new Map(held).set(relation, { relation, mode: known, heldMs });
      }
      this.#held.set(statement.index, held);
    }
  }
}

function modeOf(mode: string): LockMode | undefined {
  return LOCK_MODES.find((known) => known === mode);
}

function strength(mode: LockMode): number {
  return LOCK_MODES.indexOf(mode);
}
