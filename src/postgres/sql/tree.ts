import type * as Tree from 'libpg-query';
import type { Name } from '../../model/hazard-facts.ts';

/** The fields of those nodes of a list that are of one kind. */
export function itemsOf<Fields>(nodes: readonly Tree.Node[] | undefined, kind: string): Fields[] {
  return (nodes ?? []).flatMap((node) => {
    const fields = (node as Readonly<Record<string, unknown>>)[kind];
    return fields === undefined ? [] : [fields as Fields];
  });
}

export function strings(nodes: readonly Tree.Node[] | undefined): string[] {
  return itemsOf<Tree.String>(nodes, 'String').map(({ sval }) => sval ?? '');
}

export function nameOf(range: Tree.RangeVar | undefined): Name {
  return { schema: range?.schemaname ?? null, name: range?.relname ?? '' };
}

/** `a`, `a.b`: the last part is the name, the one before it the schema. */
export function nameOfParts(nodes: readonly Tree.Node[] | undefined): Name {
  const parts = strings(nodes);
  return { schema: parts.at(-2) ?? null, name: parts.at(-1) ?? '' };
}
