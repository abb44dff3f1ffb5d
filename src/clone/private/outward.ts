import { SafemigrateError } from '../../errors.ts';
import type { Session } from '../../target/session.ts';

// Whatever makes a statement in the database reach another system: in a clone it would reach the real ones.
const OUTWARD = `
SELECT 'foreign server ' || quote_ident(srvname) AS what FROM pg_foreign_server
UNION ALL
SELECT 'subscription ' || quote_ident(subname) FROM pg_subscription
 WHERE subdbid = (SELECT oid FROM pg_database WHERE datname = current_database())
UNION ALL
SELECT 'extension ' || quote_ident(extname) FROM pg_extension
 WHERE extname IN ('adminpack', 'amqp', 'aws_commons', 'aws_lambda', 'aws_s3', 'azure_ai', 'azure_storage', 'citus',
                   'dblink', 'http', 'pg_background', 'pg_cron', 'pg_curl', 'pg_net', 'pgl_ddl_deploy', 'pglogical',
                   'pgmq_http', 'plproxy', 'postgres_ai', 'pgai')
UNION ALL
SELECT 'untrusted language ' || quote_ident(lanname) FROM pg_language
 WHERE NOT lanpltrusted AND lanispl
ORDER BY 1`;

/** Objects in the session's database through which other systems could be reached, in words. */
export async function outwardObjects(session: Session): Promise<string[]> {
  const rows = await session.query<{ what: string }>(OUTWARD);
  return rows.map(({ what }) => what);
}

/** For where a clone could reach other systems through these. */
export function refuseOutward(objects: readonly string[]): SafemigrateError {
  return new SafemigrateError(
    'CLONE',
    'A clone on a server of its own could reach other systems, because this machine cannot take the network ' +
      `away from it, and the target has: ${objects.join(', ')}.`,
    {
      hint:
        'Run as root with CAP_SYS_ADMIN (namespaces), or allow it with --allow-outward. ' +
        'The target was not touched.',
    },
  );
}
