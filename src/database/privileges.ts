import type { Session } from '../postgres/connection/session.ts';
import { identifier } from '../postgres/sql/quote.ts';
import type { Target } from './target.ts';

/** A privilege that a clone method needs, whether the role has it, and the statement that grants it. */
export interface Privilege {
  readonly right: string;
  /** Its purpose, for display. */
  readonly purpose: string;
  readonly held: boolean;
  /** The clone methods that need it; none if it only adds to a report. */
  readonly methods: readonly ('template' | 'cluster' | 'dump' | 'basebackup')[];
  /** Statement for a superuser, or another administrator of roles, and the one that takes it back. */
  readonly grant: string;
  readonly revoke: string;
}

/**
 * Statements that make the role own the database, and that undo it. Membership in an owner with powers over the server would give
 * them to the role, so the database is given away instead.
 */
export function ownershipStatements({
  role,
  database,
}: {
  readonly role: Pick<Target['role'], 'name'>;
  readonly database: Pick<Target['database'], 'name' | 'owner' | 'ownerHasPowers'>;
}): Pick<Privilege, 'grant' | 'revoke'> {
  const [name, owner] = [identifier(role.name), identifier(database.owner)];
  if (!database.ownerHasPowers)
    return { grant: `GRANT ${owner} TO ${name};`, revoke: `REVOKE ${owner} FROM ${name};` };
  const change = `ALTER DATABASE ${identifier(database.name)} OWNER TO`;
  return { grant: `${change} ${name};`, revoke: `${change} ${owner};` };
}

const RIGHTS = `
SELECT r.rolsuper AS superuser, r.rolcreatedb AS createdb, r.rolreplication AS replication,
       pg_has_role('pg_read_all_stats', 'USAGE') AS statistics,
       pg_has_role('pg_signal_backend', 'USAGE') AS signals,
       pg_has_role('pg_read_all_settings', 'USAGE') AS settings,
       pg_has_role('pg_read_all_data', 'USAGE') AS data,
       has_function_privilege(CASE WHEN $1 THEN 'pg_backup_start(text, boolean)'
                                   ELSE 'pg_start_backup(text, boolean, boolean)' END, 'EXECUTE') AS starts,
       has_function_privilege(CASE WHEN $1 THEN 'pg_backup_stop(boolean)'
                                   ELSE 'pg_stop_backup(boolean, boolean)' END, 'EXECUTE') AS stops
  FROM pg_roles r WHERE r.rolname = current_user`;

/** Version 15 renamed the backup functions. */
const BACKUP_RENAMED = 150000;

/**
 * Reads the least privileges that each clone method needs, and which of them the role has.
 * @param session in the database of our control session: privileges on functions are per database.
 */
export async function readPrivileges(session: Session, target: Target): Promise<Privilege[]> {
  const { server, role, database } = target;
  const renamed = server.versionNum >= BACKUP_RENAMED;
  type Right =
    | 'createdb'
    | 'replication'
    | 'statistics'
    | 'signals'
    | 'settings'
    | 'data'
    | 'starts'
    | 'stops';
  const [row] = await session.query<Record<Right | 'superuser', boolean>>(RIGHTS, [renamed]);
  if (!row) throw new Error('the role of the session does not exist');
  const name = identifier(role.name);
  const member = (of: string) => ({ grant: `GRANT ${of} TO ${name};`, revoke: `REVOKE ${of} FROM ${name};` });
  const attribute = (of: string) => ({
    grant: `ALTER ROLE ${name} ${of};`,
    revoke: `ALTER ROLE ${name} NO${of};`,
  });
  const [start, stop] = renamed
    ? ['pg_backup_start(text, boolean)', 'pg_backup_stop(boolean)']
    : ['pg_start_backup(text, boolean, boolean)', 'pg_stop_backup(boolean, boolean)'];
  const held = (right: boolean) => right || row.superuser;
  return [
    {
      right: 'CREATEDB',
      methods: ['template'],
      purpose: '--clone template, and dump into the same server',
      held: held(row.createdb),
      ...attribute('CREATEDB'),
    },
    {
      right: `membership in ${database.owner}, the owner of ${database.name}`,
      methods: ['template'],
      purpose: '--clone template',
      held: held(database.owned || database.isTemplate),
      ...ownershipStatements(target),
    },
    {
      right: 'pg_signal_backend',
      methods: [],
      purpose: '--disconnect idle or all',
      held: held(row.signals),
      ...member('pg_signal_backend'),
    },
    {
      right: `EXECUTE on ${start.split('(')[0]} and ${stop.split('(')[0]}`,
      methods: ['cluster'],
      purpose: `--clone cluster; to be given in the database ${session.database}`,
      held: held(row.starts && row.stops),
      grant: `GRANT EXECUTE ON FUNCTION ${start}, ${stop} TO ${name};`,
      revoke: `REVOKE EXECUTE ON FUNCTION ${start}, ${stop} FROM ${name};`,
    },
    {
      right: 'pg_read_all_settings',
      methods: ['cluster'],
      purpose: '--clone cluster, to find the data directory',
      held: held(row.settings),
      ...member('pg_read_all_settings'),
    },
    {
      right: 'pg_read_all_data, or SELECT on every table',
      methods: ['dump'],
      purpose: '--clone dump',
      held: held(row.data || database.owned),
      ...member('pg_read_all_data'),
    },
    {
      right: 'REPLICATION',
      methods: ['basebackup'],
      purpose: '--clone basebackup',
      held: held(row.replication),
      ...attribute('REPLICATION'),
    },
    {
      right: 'pg_read_all_stats',
      methods: [],
      purpose: 'who is connected, and the forecast',
      held: held(row.statistics),
      ...member('pg_read_all_stats'),
    },
  ];
}
