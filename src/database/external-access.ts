import type { Session } from '../postgres/connection/session.ts';
import { literal } from '../postgres/sql/quote.ts';

/** Extensions with functions that connect to other systems, run jobs of their own, or write files of the server. */
const EXTENSIONS = [
  ...[
    'adminpack',
    'amqp',
    'aws_commons',
    'aws_lambda',
    'aws_s3',
    'azure_ai',
    'azure_storage',
    'citus',
    'dblink',
  ],
  ...[
    'http',
    'pg_background',
    'pg_cron',
    'pg_curl',
    'pg_net',
    'pgl_ddl_deploy',
    'pglogical',
    'pgmq_http',
    'plproxy',
  ],
  ...['postgres_ai', 'pgai'],
];

/** Languages whose functions may do what the server's user may, by the names of their extensions. */
const UNTRUSTED_LANGUAGE = /^(?:pl(?:python[23]?|perl|tcl|lua|luajit|java|r|js)u|plr|plsh|pljava)$/;

/** Whether CREATE EXTENSION, or CREATE LANGUAGE, with this name gives access to other systems. */
export function givesExternalAccess(extension: string): boolean {
  return EXTENSIONS.includes(extension) || UNTRUSTED_LANGUAGE.test(extension);
}

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
 WHERE extname IN (${EXTENSIONS.map(literal).join(', ')})
UNION ALL
SELECT 'untrusted language ' || quote_ident(lanname) FROM pg_language
 WHERE NOT lanpltrusted AND lanispl
ORDER BY 1`;

/** Describes the objects in the session's database through which other systems could be reached. */
export async function externalAccessObjects(session: Session): Promise<string[]> {
  const rows = await session.query<{ what: string }>(EXTERNAL_ACCESS);
  return rows.map(({ what }) => what);
}
