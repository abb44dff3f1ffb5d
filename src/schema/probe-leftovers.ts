import type { SchemaSection } from '../model/report.ts';
import type { CatalogueIdentity } from './identity.ts';
import { label } from './object-names.ts';

/** Lists objects that a command left half-done: indexes that no query uses, constraints that old rows may violate. */
export function leftovers(before: CatalogueIdentity, after: CatalogueIdentity): SchemaSection['leftovers'] {
  const found: SchemaSection['leftovers'] = [];
  for (const object of after.values()) {
    if (object.valid) continue;
    const kind = object.kind === 'index' ? 'invalid index' : 'constraint not valid';
    found.push({ kind, object: label(object, after), preexisting: before.get(object.key)?.valid === false });
  }
  return found.sort((a, b) => a.object.localeCompare(b.object));
}
