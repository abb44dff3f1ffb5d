import { FIRST_USER_OID } from '../postgres/catalogue/user-objects.ts';
import type { Session } from '../postgres/connection/session.ts';
import type { ServerCalls } from './server-calls.ts';

/** Views over a catalogue that all databases share, or over another such view; `name` is the catalogue's. */
const VIEWS = `
WITH RECURSIVE over(oid, name) AS (
  SELECT c.oid, c.relname FROM pg_catalog.pg_class c WHERE c.relisshared AND c.relkind = 'r'
  UNION
  SELECT r.ev_class, over.name FROM over JOIN pg_catalog.pg_rewrite r
    ON r.ev_type = '1' AND r.ev_class >= ${FIRST_USER_OID} AND r.ev_action::pg_catalog.text ~ (':relid ' || over.oid || ' ')
)
SELECT DISTINCT n.nspname AS schema, c.relname AS view, over.name
FROM over JOIN pg_catalog.pg_class c USING (oid) JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind = 'v'`;

/** Adds the views of the session's database through which a catalogue could be written that all databases share. */
export async function addSharedViews(session: Session, calls: ServerCalls): Promise<void> {
  for (const { schema, view, name } of await session.query<{ schema: string; view: string; name: string }>(
    VIEWS,
  )) {
    const call = calls.relation({ schema: 'pg_catalog', name }, 'write');
    if (call) calls.setRelation({ schema, name: view, on: 'write', call });
  }
}
