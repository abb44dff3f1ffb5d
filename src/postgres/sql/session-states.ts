import { fieldsIf } from './classify-statement.ts';
import type { Node } from './tree.ts';

/** How a state follows the transactions of its session. */
interface Following<State> {
  readonly initial: State;
  /** Returns the state after a COMMIT. */
  readonly committed: (now: State) => State;
  /** Returns the state after a rollback to the moment of `before`. */
  readonly rolledBack: (now: State, before: State) => State;
}

interface Mark<State> {
  /** null: the beginning of the transaction. */
  readonly savepoint: string | null;
  readonly state: State;
}

/**
 * A state for each session, which COMMIT, ROLLBACK and savepoints change. It follows the statements alone, not the server's
 * answers, so that two runs of the same statements have the same states.
 */
export class SessionStates<State> {
  readonly #following: Following<State>;
  readonly #states = new Map<number, State>();
  readonly #marks = new Map<number, readonly Mark<State>[]>();

  constructor(following: Following<State>) {
    this.#following = following;
  }

  of(session: number): State {
    return this.#states.get(session) ?? this.#following.initial;
  }

  set(session: number, state: State): void {
    this.#states.set(session, state);
  }

  /** Follows a statement that begins or ends a transaction or a savepoint; others change nothing. */
  follow(session: number, node: Node): void {
    const transaction = fieldsIf(node, 'TransactionStmt');
    if (!transaction) return;
    const { kind, savepoint_name: savepoint = null, chain } = transaction;
    const { committed, rolledBack } = this.#following;
    const marks = this.#marks.get(session) ?? [];
    const state = this.of(session);
    const beginning: Mark<State> = { savepoint: null, state };
    const at = marks.findLastIndex((mark) => savepoint !== null && mark.savepoint === savepoint);
    switch (kind) {
      case 'TRANS_STMT_BEGIN':
      case 'TRANS_STMT_START':
        if (marks.length === 0) this.#marks.set(session, [beginning]);
        break;
      case 'TRANS_STMT_SAVEPOINT':
        this.#marks.set(session, [...marks, { savepoint, state }]);
        break;
      case 'TRANS_STMT_RELEASE':
        if (at !== -1) this.#marks.set(session, marks.slice(0, at));
        break;
      case 'TRANS_STMT_ROLLBACK_TO':
        if (at === -1) break;
        this.set(session, rolledBack(state, marks[at]?.state ?? state));
        this.#marks.set(session, marks.slice(0, at + 1));
        break;
      case 'TRANS_STMT_ROLLBACK':
        this.set(session, committed(rolledBack(state, marks[0]?.state ?? state)));
        this.#marks.set(session, chain ? [{ ...beginning, state: this.of(session) }] : []);
        break;
      case 'TRANS_STMT_COMMIT':
      case 'TRANS_STMT_PREPARE':
        this.set(session, committed(state));
        this.#marks.set(session, chain ? [{ ...beginning, state: this.of(session) }] : []);
        break;
    }
  }
}
