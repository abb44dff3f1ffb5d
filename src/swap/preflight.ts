import type { Target } from '../database/target.ts';
import { plural } from '../format.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';

/** Why a database cannot be swapped now, and what would help. */
export interface SwapObstacle {
  readonly reason: string;
  readonly wayOut: string;
}

interface Row {
  prepared: string;
  slots: string;
  subscriptions: string;
  standbys: string;
  superusers: string;
  unendable: string;
  may_clone: boolean;
}

/**
 * One reading, so that the conditions are of one moment. A walsender with a database serves logical replication. The state
 * of the others is hidden from most roles: then each of them may be a standby's.
 */
const CONDITIONS = `
SELECT (SELECT count(*) FROM pg_prepared_xacts WHERE database = $2) AS prepared,
       (SELECT count(*) FROM pg_replication_slots WHERE database = $2) AS slots,
       (SELECT count(*) FROM pg_subscription WHERE subdbid = $1::oid) AS subscriptions,
       (SELECT count(*) FROM pg_stat_replication r JOIN pg_stat_activity a ON a.pid = r.pid
         WHERE a.datid IS NULL AND coalesce(r.state, 'streaming') IN ('streaming', 'catchup')) AS standbys,
       (SELECT count(*) FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid
         WHERE a.datid = $1::oid AND r.rolsuper AND NOT me.rolsuper) AS superusers,
       (SELECT count(*) FROM pg_stat_activity a JOIN pg_roles r ON r.oid = a.usesysid
         WHERE a.datid = $1::oid AND NOT me.rolsuper AND NOT r.rolsuper
           AND NOT pg_has_role(r.oid, 'USAGE') AND NOT pg_has_role('pg_signal_backend', 'USAGE')) AS unendable,
       me.rolsuper OR (me.rolcreatedb AND pg_has_role(d.datdba, 'USAGE')) AS may_clone
  FROM pg_roles me, pg_database d
 WHERE me.rolname = current_user AND d.oid = $1::oid`;

/** Names that tools and people take for granted. */
const MAINTENANCE = new Set(['postgres', 'template0', 'template1']);

/**
 * Everything that stands against a swap, before anything is touched. Changes nothing.
 * @param session in another database of the target's server.
 */
export async function swapObstacles(
  session: Session,
  { database, role }: Pick<Target, 'database' | 'role'>,
  { standbysAreTakenCareOf }: { readonly standbysAreTakenCareOf: boolean },
): Promise<SwapObstacle[]> {
  const [row] = await session.query<Row>(CONDITIONS, [database.oid, database.name]);
  if (!row) throw new Error(`no database with OID ${database.oid}`);
  const found: SwapObstacle[] = [];
  const say = (holds: boolean, reason: string, wayOut: string) => {
    if (holds) found.push({ reason, wayOut });
  };
  say(
    MAINTENANCE.has(database.name) || database.isTemplate || session.database === database.name,
    `${database.name} is a template or a maintenance database`,
    'others rely on its name; keep the data in a database of its own',
  );
  say(
    !row.may_clone,
    `the role ${role.name} may not clone and rename ${database.name}`,
    `ALTER ROLE ${identifier(role.name)} CREATEDB; GRANT ${identifier(database.owner)} TO ${identifier(role.name)};`,
  );
  say(
    Number(row.prepared) > 0,
    plural(Number(row.prepared), 'prepared transaction'),
    `in ${database.name}: COMMIT PREPARED or ROLLBACK PREPARED each; SELECT gid, prepared, owner FROM pg_prepared_xacts`,
  );
  say(
    Number(row.slots) > 0,
    `${plural(Number(row.slots), 'logical replication slot')} on it, which would stay with the original`,
    'drop them and make them anew after the swap, or apply the migration in place (--apply)',
  );
  say(
    Number(row.subscriptions) > 0,
    `${plural(Number(row.subscriptions), 'subscription')} in it, which would stay with the original`,
    'apply the migration in place (--apply), or drop the subscriptions first',
  );
  say(
    Number(row.standbys) > 0 && !standbysAreTakenCareOf,
    `${plural(Number(row.standbys), 'standby', 'standbys')} of the server: sessions there would stay with the original and read old data without an error`,
    '--allow-standbys once they have no readers, or are restarted after the swap',
  );
  say(
    Number(row.superusers) > 0,
    `${plural(Number(row.superusers), 'session')} of superusers on it, which this role may not end`,
    `end them, or run as a superuser: SELECT pid, usename, application_name FROM pg_stat_activity WHERE datname = ${literal(database.name)}`,
  );
  say(
    Number(row.unendable) > 0,
    `${plural(Number(row.unendable), 'session')} of other roles on it, which this role may not end`,
    `GRANT pg_signal_backend TO ${identifier(role.name)};`,
  );
  return found;
}
