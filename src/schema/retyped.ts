import type { SchemaSection } from '../model/report.ts';
import type { Delta, StableId } from './pg-delta.ts';

/** A column whose type changed, under its name from before; types as format_type writes them. */
export interface Retyped {
  readonly object: string;
  readonly from: string;
  readonly to: string;
}

/** Finds the columns whose type changes. @param name returns the name of a column. */
export function retypedColumns(deltas: readonly Delta[], name: (id: StableId) => string): Retyped[] {
  return deltas.flatMap((delta) =>
    delta.verb === 'set' && delta.id.kind === 'column' && delta.attr === 'type'
      ? [{ object: name(delta.id), from: String(delta.from), to: String(delta.to) }]
      : [],
  );
}

/** Describes the values that the rollback SQL cannot restore. */
export function valuesAsTheyWere({ object, from, to }: Retyped): string {
  return `the values of ${object} as they were in ${from} (${to} now)`;
}

/** Removes the losses of changes that are known to lose nothing: the comparison itself only knows the types. */
export function withoutLossOf(section: SchemaSection, harmless: readonly Retyped[]): SchemaSection {
  if (harmless.length === 0) return section;
  const objects = new Set(harmless.map(({ object }) => object));
  const sentences = new Set(harmless.map(valuesAsTheyWere));
  return {
    ...section,
    changes: section.changes.map((change) =>
      change.verb === 'alter' && change.kind === 'column' && objects.has(change.object)
        ? { ...change, dataLoss: false }
        : change,
    ),
    rollbackLoses: section.rollbackLoses.filter((words) => !sentences.has(words)),
  };
}
