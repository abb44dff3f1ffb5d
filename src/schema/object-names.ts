import { displayName } from '../postgres/sql/quote.ts';
import type { CatalogueIdentity, Identified } from './identity.ts';

/** An object's name with the names of all it lies in: `public`, `orders`, `email`. */
export function path(object: Identified, identity: CatalogueIdentity): string[] {
  const outer = object.within === null ? undefined : identity.get(object.within);
  return outer ? [...path(outer, identity), object.name] : [object.name];
}

/** For reports: `public.orders.email`, `public.total(integer)`. */
export function label(object: Identified, identity: CatalogueIdentity): string {
  const name = displayName(...path(object, identity));
  return object.args === null ? name : `${name}(${object.args})`;
}
