import type { ApplySection, SchemaChange, SchemaSection } from '../model/report.ts';
import { type Rehearsed, type RehearsedStatement, rehearsedOf } from '../rehearsal/receipts/rehearsed.ts';

/**
 * Rehearsed against applied, statement by statement: matched by their shape, in their order, so that a statement that came
 * on one side only has no partner and moves nobody else's.
 */
export function compareTimes(
  rehearsed: Rehearsed,
  applied: Parameters<typeof rehearsedOf>[0],
): ApplySection['comparedTimes'] {
  const waiting = new Map<string, RehearsedStatement[]>();
  for (const statement of rehearsed.statements) {
    const queue = waiting.get(statement.shape);
    if (queue) queue.push(statement);
    else waiting.set(statement.shape, [statement]);
  }
  return rehearsedOf(applied).statements.flatMap(({ index, sql, shape, durationMs }) => {
    const partner = waiting.get(shape)?.shift();
    if (!partner) return [];
    return [
      {
        sql,
        rehearsed: partner.index,
        applied: index,
        rehearsedMs: partner.durationMs,
        appliedMs: durationMs,
      },
    ];
  });
}

export interface SchemaOutcome {
  readonly equal: boolean;
  /** In words, what the target has otherwise than the rehearsal led to expect. */
  readonly differences: string[];
}

/**
 * Whether the target got the schema that the rehearsal led to. A clone that could not carry everything began otherwise
 * than the target; then the changes must be the same ones.
 */
export function compareSchemas(rehearsed: SchemaSection, applied: SchemaSection): SchemaOutcome {
  if (applied.after === rehearsed.after) return { equal: true, differences: [] };
  const missing = without(rehearsed.changes, applied.changes).map((change) => `missing: ${told(change)}`);
  const added = without(applied.changes, rehearsed.changes).map((change) => `not rehearsed: ${told(change)}`);
  const differences = [...missing, ...added];
  if (differences.length === 0 && applied.before !== rehearsed.before) return { equal: true, differences };
  return {
    equal: false,
    differences:
      differences.length > 0
        ? differences
        : ['the same objects were changed, and yet the fingerprint of the schema is another one'],
  };
}

function without(changes: readonly SchemaChange[], others: readonly SchemaChange[]): SchemaChange[] {
  const known = new Set(others.map(keyOf));
  return changes.filter((change) => !known.has(keyOf(change)));
}

function keyOf({ verb, kind, object, sql }: SchemaChange): string {
  return JSON.stringify([verb, kind, object, sql]);
}

const told = ({ verb, kind, object }: SchemaChange) => `${verb} ${kind} ${object}`;
