import { createHash } from 'node:crypto';
import { beginsAsData } from '../../postgres/sql/classify-statement.ts';
import type { ParsedStatement } from '../../postgres/sql/parse.ts';
import { shapeWithoutValues } from '../../postgres/sql/value-shape.ts';
import { isNotCompared } from './divergence.ts';

interface SentStatement {
  readonly session: number;
  readonly sql: string;
  /** null if it could not be parsed. */
  readonly parsed: Pick<ParsedStatement, 'node' | 'role'> | null;
}

/**
 * Tells at which point of its session each definition stands: by its own shape and that of the definition before it, both
 * without values. The end or the beginning of a transaction is a new start, since a command that is rerun skips what it has
 * committed.
 */
export class DefinitionPoints {
  /** The shape of the last definition, by session. */
  readonly #last = new Map<number, string>();

  /** Takes every statement in its order. @returns undefined if it is no definition, or could not be parsed. */
  next({ session, sql, parsed }: SentStatement): string | undefined {
    if (parsed && parsed.role !== 'ordinary') this.#last.delete(session);
    if (parsed?.role !== 'ordinary' || beginsAsData(sql) || isNotCompared(parsed.node)) return undefined;
    const shape = createHash('sha256').update(shapeWithoutValues(parsed.node)).digest('base64url');
    const point = `${this.#last.get(session) ?? 'start'} ${shape}`;
    this.#last.set(session, shape);
    return point;
  }
}
