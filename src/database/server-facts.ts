import { SafemigrateError } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import { notPostgres } from '../postgres/connection/supported-versions.ts';
import { EXTERNAL_ACCESS } from './external-access.ts';
import type { DatabaseFacts, RoleFacts, ServerFacts } from './target.ts';

export interface TargetFacts {
  readonly server: ServerFacts;
  readonly role: RoleFacts;
  readonly database: DatabaseFacts;
}

const SERVER_AND_ROLE = `
SELECT current_setting('server_version_num')::int AS version_num,
       current_setting('server_version') AS server_version,
       version() AS version,
       current_setting('max_connections')::int AS max_connections,
       current_setting('block_size')::int AS block_size,
       pg_is_in_recovery() AS in_recovery,
       has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') AS reads_control,
       r.rolname, r.rolsuper, r.rolcreatedb, r.rolreplication,
       ARRAY(SELECT p.rolname::text FROM pg_roles p
              WHERE p.rolname LIKE 'pg\\_%' AND pg_has_role(p.oid, 'USAGE')) AS predefined
  FROM pg_roles r WHERE r.rolname = current_user`;

// An estimate from the catalog, since relpages is as old as the last VACUUM or ANALYZE: each GB of a relation is a
// file, a table of more than four pages has a free space map, one with all-visible pages a visibility map, and what
// is unlogged an init fork.
const DATABASE = `
SELECT d.oid::int8 AS oid, d.datname, pg_get_userbyid(d.datdba) AS owner, pg_has_role(d.datdba, 'USAGE') AS owned,
       EXISTS (SELECT FROM pg_roles p
                WHERE pg_has_role(d.datdba, p.oid, 'MEMBER')
                  AND (p.rolsuper OR p.rolcreaterole OR p.rolreplication OR p.rolbypassrls
                       OR p.rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files'))
              ) AS owner_has_powers,
       d.datistemplate, t.spcname, pg_database_size(d.oid) AS size_bytes, c.relations, c.unlogged, c.files,
       ARRAY(${EXTERNAL_ACCESS}) AS external_access
  FROM pg_database d JOIN pg_tablespace t ON t.oid = d.dattablespace
 CROSS JOIN (SELECT count(*) AS relations,
                    count(*) FILTER (WHERE relpersistence = 'u' AND relkind IN ('r', 'm')) AS unlogged,
                    coalesce(sum(1 + relpages::int8 * current_setting('block_size')::int8 / 1073741824
                                 + CASE WHEN relkind IN ('r', 'm', 't') AND relpages > 4 THEN 1 ELSE 0 END
                                 + CASE WHEN relallvisible > 0 THEN 1 ELSE 0 END
                                 + CASE WHEN relpersistence = 'u' THEN 1 ELSE 0 END), 0) AS files
               FROM pg_class WHERE relkind IN ('r', 'm', 't', 'i', 'S')) c
 WHERE d.datname = current_database()`;

const SYSTEM_IDENTIFIER = 'SELECT system_identifier::text AS id FROM pg_control_system()';

/** PostgreSQL forks and compatible servers, by a word in version(). */
const OTHERS: readonly (readonly [word: string, name: string])[] = [
  ['CockroachDB', 'CockroachDB'],
  ['Redshift', 'Amazon Redshift'],
  ['-YB-', 'YugabyteDB'],
  ['Greenplum', 'Greenplum'],
  ['Materialize', 'Materialize'],
];

interface ServerRow {
  version_num: number;
  server_version: string;
  version: string;
  max_connections: number;
  block_size: number;
  in_recovery: boolean;
  reads_control: boolean;
  rolname: string;
  rolsuper: boolean;
  rolcreatedb: boolean;
  rolreplication: boolean;
  predefined: string[];
}

interface DatabaseRow {
  oid: string;
  datname: string;
  owner: string;
  owned: boolean;
  owner_has_powers: boolean;
  datistemplate: boolean;
  spcname: string;
  size_bytes: string;
  relations: string;
  unlogged: string;
  files: string;
  external_access: string[];
}

/**
 * Reads the facts about the server, our role and the session's database, in two or three round trips.
 * @throws SafemigrateError `SERVER` for a server other than PostgreSQL, and for a standby unless that is accepted.
 */
export async function readFacts(session: Session, standbyToo = false): Promise<TargetFacts> {
  const server = one(await session.query<ServerRow>(SERVER_AND_ROLE));
  const other = OTHERS.find(([word]) => server.version.includes(word));
  if (other) throw notPostgres(other[1]);
  if (server.in_recovery && !standbyToo) throw standby();
  const database = one(await session.query<DatabaseRow>(DATABASE));
  return {
    server: {
      versionNum: server.version_num,
      version: server.server_version.split(' ', 1)[0] ?? '',
      systemIdentifier: server.reads_control
        ? one(await session.query<{ id: string }>(SYSTEM_IDENTIFIER)).id
        : null,
      inRecovery: server.in_recovery,
      maxConnections: server.max_connections,
      blockSize: server.block_size,
    },
    role: roleFacts(server),
    database: {
      oid: Number(database.oid),
      name: database.datname,
      owner: database.owner,
      owned: database.owned,
      ownerHasPowers: database.owner_has_powers,
      isTemplate: database.datistemplate,
      sizeBytes: Number(database.size_bytes),
      files: Number(database.files),
      relations: Number(database.relations),
      unloggedTables: Number(database.unlogged),
      tablespace: database.spcname,
      externalAccess: database.external_access,
    },
  };
}

function roleFacts(row: ServerRow): RoleFacts {
  const may = (predefined: string) => row.rolsuper || row.predefined.includes(predefined);
  return {
    name: row.rolname,
    superuser: row.rolsuper,
    createdb: row.rolcreatedb || row.rolsuper,
    // Before version 15 there is no role pg_checkpoint: only superusers may use CHECKPOINT.
    mayCheckpoint: may('pg_checkpoint'),
    maySignal: may('pg_signal_backend'),
    seesActivity: may('pg_read_all_stats'),
    runsPrograms: may('pg_execute_server_program'),
    readsFiles: may('pg_read_server_files'),
    writesFiles: may('pg_write_server_files'),
    mayReplicate: row.rolsuper || row.rolreplication,
  };
}

function standby(): SafemigrateError {
  return new SafemigrateError(
    'SERVER',
    'The server is a standby: it is read-only, so no clone can be created on it.',
    {
      hint: 'Give the address of the primary, or target_session_attrs=read-write with several hosts in the URL.',
    },
  );
}

function one<Row>([row]: readonly Row[]): Row {
  if (row === undefined) throw new Error('a catalogue query that has exactly one row had none');
  return row;
}
