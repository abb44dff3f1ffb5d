import type { PlacedFile, ReadSourceText } from './placed-file.ts';

interface Revision extends PlacedFile {
  readonly after: readonly string[];
}

const REVISION = /^revision\b[^=\n]*=\s*["']([^"']+)["']/m;
const AFTER = /^(?:down_revision|depends_on)\b[^=\n]*=\s*(\([^)]*\)|\[[^\]]*\]|[^\n]*)/gm;
/** Branches with a name are meant to be there side by side. */
const LABELLED = /^branch_labels\b[^=\n]*=\s*(?!None\b)\S/m;

/**
 * Places files by the revisions in them. Alembic records only the last one of each branch: those before it are applied, those after
 * it are pending, and what branches off from an applied one is passed over.
 */
export async function alembicPlaces(
  files: readonly PlacedFile[],
  recorded: ReadonlySet<string>,
  read: ReadSourceText,
): Promise<PlacedFile[]> {
  const revisions: Revision[] = [];
  for (const each of files) {
    const text = await read(each.file);
    const key = REVISION.exec(text)?.[1];
    if (LABELLED.test(text)) return [];
    const after = [...text.matchAll(AFTER)].flatMap(([, words = '']) =>
      [...words.matchAll(/["']([^"']+)["']/g)].map(([, name = '']) => name),
    );
    if (key !== undefined) revisions.push({ ...each, key, after });
  }
  const byKey = new Map(revisions.map((each) => [each.key, each]));
  const before = (key: string, found = new Set<string>()): Set<string> => {
    if (found.has(key)) return found;
    found.add(key);
    for (const each of byKey.get(key)?.after ?? []) before(each, found);
    return found;
  };
  const applied = new Set([...recorded].flatMap((key) => [...before(key)]));
  return revisions.flatMap((each) => {
    const own = [...before(each.key)];
    // A branch with another root, or with a revision that is in no file, is not judged.
    if (own.some((key) => !byKey.has(key)) || !own.some((key) => applied.has(key))) return [];
    const isApplied = applied.has(each.key);
    const order = isApplied
      ? recorded.has(each.key)
        ? '3'
        : '1'
      : own.some((key) => recorded.has(key))
        ? '4'
        : '2';
    return [{ ...each, order, isApplied }];
  });
}
