import type { Session } from '../postgres/connection/session.ts';
import { identifier } from '../postgres/sql/quote.ts';
import type { Target } from './target.ts';

/** A right that one of safemigrate's ways needs, whether the role has it, and the statement that gives it. */
export interface Privilege {
  readonly right: string;
  /** What it is for, in words for the user. */
  readonly purpose: string;
  readonly held: boolean;
  /** To be run by a superuser, or whoever administers the roles. */
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

/** Version 15 renamed the functions of a backup. */
const BACKUP_RENAMED = 150000;

/**
 * The least that each way to rehearse needs of the role, and what of it is there.
 * @param session in the database that safemigrate sits in: rights to functions are a database's own.
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
      // Nobody should become a superuser for a rehearsal.
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
