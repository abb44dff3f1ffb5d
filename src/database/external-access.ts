import type { Session } from '../postgres/connection/session.ts';
import { EXTERNAL_EXTENSIONS } from '../postgres/external-extensions.ts';
import { literal } from '../postgres/sql/quote.ts';

/**
 * Lists the objects in a database through which its statements can reach other systems. A foreign server needs a wrapper that
 * does something: those without a handler only keep options.
 */
export const EXTERNAL_ACCESS = `
SELECT 'foreign server ' || quote_ident(s.srvname) AS what
  FROM pg_foreign_server s JOIN pg_foreign_data_wrapper w ON w.oid = s.srvfdw WHERE w.fdwhandler <> 0
UNION ALL
SELECT 'subscription ' || quote_ident(subname) FROM pg_subscription
 WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL
SELECT 'extension ' || quote_ident(extname) FROM pg_extension
 WHERE extname IN (${EXTERNAL_EXTENSIONS.map(literal).join(', ')})
UNION ALL
SELECT 'untrusted language ' || quote_ident(lanname) FROM pg_language
 WHERE NOT lanpltrusted AND lanispl
ORDER BY 1`;

/** Describes the objects in the session's database through which other systems could be reached. */
export async function externalAccessObjects(session: Session): Promise<string[]> {
  const rows = await session.query<{ what: string }>(EXTERNAL_ACCESS);
  return rows.map(({ what }) => what);
}
