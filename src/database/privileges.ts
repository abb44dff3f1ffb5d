import type { Session } from '../postgres/connection/session.ts';
import { identifier } from '../postgres/sql/quote.ts';
import type { Target } from './target.ts';

/** A privilege that a clone method needs, whether the role has it, and the statement that grants it. */
export interface Privilege {
  readonly right: string;
  /** Its purpose, for display. */
  readonly purpose: string;
  readonly held: boolean;
  /** Statement for a superuser, or another administrator of roles. */
  readonly grant: string;
}

const RIGHTS = `
SELECT r.rolsuper AS superuser, r.rolcreatedb AS createdb, r.rolreplication AS replication,
       (SELECT o.rolsuper FROM pg_roles o WHERE o.rolname = $2) AS superuser_owns,
       pg_has_role('pg_read_all_stats', 'USAGE') AS statistics,
       pg_has_role('pg_signal_backend', 'USAGE') AS signals,
       pg_has_role('pg_read_all_settings', 'USAGE') AS settings,
       pg_has_role('pg_read_all_data', 'USAGE') AS data,
       has_function_privilege(CASE WHEN $1 THEN 'pg_backup_start(text, boolean)'
                                   ELSE 'pg_start_backup(text, boolean, boolean)' END, 'EXECUTE') AS starts,
       has_function_privilege(CASE WHEN $1 THEN 'pg_backup_stop(boolean)'
                                   ELSE 'pg_stop_backup(boolean, boolean)' END, 'EXECUTE') AS stops
  FROM pg_roles r WHERE r.rolname = current_user`;

interface Row {
  superuser: boolean;
  createdb: boolean;
  replication: boolean;
  superuser_owns: boolean;
  statistics: boolean;
  signals: boolean;
  settings: boolean;
  data: boolean;
  starts: boolean;
  stops: boolean;
}

/** Version 15 renamed the backup functions. */
const BACKUP_RENAMED = 150000;

/**
 * Reads the least privileges that each clone method needs, and which of them the role has.
 * @param session in the database of our control session: privileges on functions are per database.
 */
export async function readPrivileges(
  session: Session,
  { server, role, database }: Target,
): Promise<Privilege[]> {
  const renamed = server.versionNum >= BACKUP_RENAMED;
  const [row] = await session.query<Row>(RIGHTS, [renamed, database.owner]);
  if (!row) throw new Error('the role of the session does not exist');
  const name = identifier(role.name);
  const member = (of: string) => `GRANT ${identifier(of)} TO ${name};`;
  const [start, stop] = renamed
    ? ['pg_backup_start(text, boolean)', 'pg_backup_stop(boolean)']
    : ['pg_start_backup(text, boolean, boolean)', 'pg_stop_backup(boolean, boolean)'];
  const held = (right: boolean) => right || row.superuser;
  return [
    {
      right: 'CREATEDB',
      purpose: '--clone template, and dump into the same server',
      held: held(row.createdb),
      grant: `ALTER ROLE ${name} CREATEDB;`,
    },
    {
      right: `membership in ${database.owner}, the owner of ${database.name}`,
      purpose: '--clone template',
      held: held(database.owned || database.isTemplate),
      // A rehearsal should not require a superuser.
      grant: row.superuser_owns
        ? `ALTER DATABASE ${identifier(database.name)} OWNER TO ${name};`
        : member(database.owner),
    },
    {
      right: 'pg_signal_backend',
      purpose: '--disconnect idle or all',
      held: held(row.signals),
      grant: member('pg_signal_backend'),
    },
    {
      right: `EXECUTE on ${start.split('(')[0]} and ${stop.split('(')[0]}`,
      purpose: `--clone cluster; to be given in the database ${session.database}`,
      held: held(row.starts && row.stops),
      grant: `GRANT EXECUTE ON FUNCTION ${start}, ${stop} TO ${name};`,
    },
    {
      right: 'pg_read_all_settings',
      purpose: '--clone cluster, to find the data directory',
      held: held(row.settings),
      grant: member('pg_read_all_settings'),
    },
    {
      right: 'pg_read_all_data, or SELECT on every table',
      purpose: '--clone dump',
      held: held(row.data || database.owned),
      grant: member('pg_read_all_data'),
    },
    {
      right: 'REPLICATION',
      purpose: '--clone basebackup',
      held: held(row.replication),
      grant: `ALTER ROLE ${name} REPLICATION;`,
    },
    {
      right: 'pg_read_all_stats',
      purpose: 'who is connected, and the forecast',
      held: held(row.statistics),
      grant: member('pg_read_all_stats'),
    },
  ];
}
