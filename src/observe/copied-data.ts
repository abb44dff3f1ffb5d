import { measured } from '../measured.ts';
import type { Caveat, DataSection, SchemaSection } from '../model/report.ts';
import { type BothSides, onBothSides } from './both-sides.ts';
import { copiedColumns, copiedTables } from './column-contents.ts';
import { incompleteCopies } from './incomplete-copies.ts';

/** Dropped columns with values of which another column is a copy under the same name. Only those of small tables are compared. */
export async function copiedAmong(
  options: BothSides,
  lost: DataSection['lost'],
  touched: string[],
  caveats: Caveat[],
): Promise<string[]> {
  const objects = lost
    .filter(
      ({ kind, what, exact, rowsWithValue }) =>
        kind === 'column' && what === 'dropped' && exact && rowsWithValue,
    )
    .map(({ object }) => object);
  if (objects.length === 0) return [];
  const compare = () => onBothSides(options, (target, copy) => copiedColumns(target, copy, objects));
  const copied = (await measured(caveats, 'data.lost', compare)) ?? [];
  touched.push(...copied.map((object) => `compared the values of ${object}`));
  return copied;
}

/** Dropped tables with rows that another table has. Only small ones are compared. */
export async function tablesCopied(
  options: BothSides,
  lost: DataSection['lost'],
  touched: string[],
  caveats: Caveat[],
): Promise<{ relation: string; to: string }[]> {
  const dropped = lost.filter(({ kind, what, rows }) => kind === 'table' && what === 'dropped' && rows !== 0);
  if (dropped.length === 0) return [];
  const compare = () =>
    onBothSides(options, (target, clone) =>
      copiedTables(
        target,
        clone,
        dropped.map(({ object }) => object),
      ),
    );
  const copied = (await measured(caveats, 'data.lost', compare)) ?? [];
  touched.push(...copied.map(({ relation }) => `compared the rows of ${relation}`));
  return copied;
}

/** Adds the copies of dropped columns that lack some of their values. */
export async function withCopies(
  options: BothSides,
  lost: DataSection['lost'],
  schema: SchemaSection | null,
  caveats: Caveat[],
): Promise<DataSection['lost']> {
  const dropped = lost.filter(
    ({ kind, what, rows, rowsWithValue }) =>
      kind === 'column' && what === 'dropped' && rows !== 0 && rowsWithValue !== 0,
  );
  const mayCopy = schema?.changes.some(
    ({ verb, kind }) => verb === 'create' && (kind === 'table' || kind === 'column'),
  );
  if (!schema || !mayCopy || dropped.length === 0) return lost;
  const objects = dropped.map(({ object }) => object);
  const compare = () =>
    onBothSides(options, (target, clone) => incompleteCopies(target, clone, objects, schema));
  const copies = await measured(caveats, 'data.lost', compare);
  return lost.map((each) => {
    const copy = dropped.includes(each) ? copies?.get(each.object) : undefined;
    return copy ? { ...each, copy } : each;
  });
}

/** Takes the loss from what was dropped without a row or a value in it, or has a copy. */
export function withoutEmptyLoss(
  schema: SchemaSection,
  lost: DataSection['lost'],
  copied: readonly string[],
  tables: readonly { readonly relation: string }[],
): SchemaSection {
  const empty = new Set([
    ...lost
      .filter(({ what, exact, rowsWithValue }) => what === 'dropped' && exact && rowsWithValue === 0)
      .map(({ kind, object }) => `${kind} ${object}`),
    ...copied.map((object) => `column ${object}`),
    ...tables.map(({ relation }) => `table ${relation}`),
  ]);
  return {
    ...schema,
    changes: schema.changes.map((change) =>
      change.verb === 'drop' && empty.has(`${change.kind} ${change.object}`)
        ? { ...change, dataLoss: false }
        : change,
    ),
  };
}
