import type { StatementSection } from '../model/report.ts';
import { fieldsIf } from '../postgres/sql/classify-statement.ts';
import type { Node } from '../postgres/sql/tree.ts';

interface Savepoint {
  readonly name: string;
  readonly index: number;
}

/** Which statements were undone by ROLLBACK TO SAVEPOINT. */
export class Savepoints {
  /** Those that exist, by transaction, the innermost last. */
  readonly #open = new Map<number, Savepoint[]>();
  readonly #undone: { readonly transaction: number; readonly after: number; readonly before: number }[] = [];

  /** To be given each statement that succeeded, in the order in which they were sent. */
  note({ index, transaction }: StatementSection, node: Node): void {
    const { kind, savepoint_name: name = '' } = fieldsIf(node, 'TransactionStmt') ?? {};
    const open = this.#open.get(transaction) ?? [];
    const at = open.findLastIndex((each) => each.name === name);
    const savepoint = open[at];
    if (kind === 'TRANS_STMT_SAVEPOINT') this.#open.set(transaction, [...open, { name, index }]);
    if (!savepoint) return;
    if (kind === 'TRANS_STMT_RELEASE') this.#open.set(transaction, open.slice(0, at));
    if (kind !== 'TRANS_STMT_ROLLBACK_TO') return;
    this.#open.set(transaction, open.slice(0, at + 1));
    this.#undone.push({ transaction, after: savepoint.index, before: index });
  }

  undid({ index, transaction }: StatementSection): boolean {
    return this.#undone.some(
      (each) => each.transaction === transaction && each.after < index && index < each.before,
    );
  }
}
