import type { Session } from '../../postgres/connection/session.ts';
import type { Impossible } from '../method.ts';

// Objects that make a statement in the database reach another system: in a clone they would reach the real one.
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

/** Describes the objects in the session's database through which other systems could be reached. */
export async function externalAccessObjects(session: Session): Promise<string[]> {
  const rows = await session.query<{ what: string }>(OUTWARD);
  return rows.map(({ what }) => what);
}

export function cannotClose(objects: readonly string[]): Required<Impossible> {
  return {
    possible: false,
    reason:
      'on a server of its own the clone could reach other systems, because this machine cannot take the network and ' +
      `the target's sockets away from it, and the target has: ${objects.join(', ')}`,
    enable:
      'run as root with CAP_SYS_ADMIN and a superuser of the target, or allow it with --allow-external-access',
  };
}
