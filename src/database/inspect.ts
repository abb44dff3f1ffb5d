import { SafemigrateError } from '../errors.ts';
import type { Audit } from '../postgres/connection/audit.ts';
import { openSession } from '../postgres/connection/connect.ts';
import type { ConnectionSettings, HostAndPort } from '../postgres/connection/connection-settings.ts';
import type { Session } from '../postgres/connection/session.ts';
import { notPostgres } from '../postgres/connection/supported-versions.ts';
import { EXTERNAL_EXTENSIONS } from '../postgres/external-extensions.ts';
import { decidesMeaning } from '../postgres/sql/meaning-settings.ts';
import { literal } from '../postgres/sql/quote.ts';
import { shortHash } from '../postgres/sql/statement-hashes.ts';
import type { DatabaseFacts, RoleFacts, ServerFacts, Target } from './target.ts';

export interface InspectOptions {
  readonly run?: string;
  readonly audit?: Audit;
  readonly signal?: AbortSignal;
  /** Accepts a standby. */
  readonly standbyToo?: boolean;
}

/** The target, and a read-only session in it. */
export interface Visit {
  readonly target: Target;
  readonly session: Session;
}

/**
 * Connects, and reads the facts about server, role and database.
 * @throws SafemigrateError `CONNECTION`, `SERVER`, `CONFIGURATION`, `INTERRUPTED`
 */
export async function visitTarget(
  settings: ConnectionSettings,
  source: string,
  options: InspectOptions = {},
): Promise<Visit> {
  const session = await openSession(settings, { ...options, purpose: 'inspect', readOnly: true });
  try {
    const answered = onlyHost(settings, session.address);
    const facts = await readFacts(session, options.standbyToo);
    return { target: { settings: answered, source, ...facts }, session };
  } catch (error) {
    await session.close();
    throw error;
  }
}

/** Like visitTarget(), but closes the session. */
export async function inspectTarget(
  settings: ConnectionSettings,
  source: string,
  options?: InspectOptions,
): Promise<Target> {
  const { target, session } = await visitTarget(settings, source, options);
  await session.close();
  return target;
}

/** Reduces the settings to the host that answered, so that later connections go to the same server. */
export function onlyHost(settings: ConnectionSettings, address: HostAndPort): ConnectionSettings {
  const { target_session_attrs, load_balance_hosts, hostaddr, ...parameters } = settings.parameters;
  const index = settings.hosts.indexOf(address);
  const hostAddress = hostaddr?.split(',')[index];
  return {
    ...settings,
    hosts: [address],
    parameters: hostAddress ? { ...parameters, hostaddr: hostAddress } : parameters,
  };
}

/**
 * Lists the objects in a database through which its statements can reach other systems. A foreign server needs a wrapper that
 * does something: those without a handler only keep options.
 */
const EXTERNAL_ACCESS = `
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

const SERVER = `
SELECT version() AS product, current_setting('server_version_num')::int AS "versionNum",
       split_part(current_setting('server_version'), ' ', 1) AS version,
       pg_is_in_recovery() AS "inRecovery", current_setting('max_connections')::int AS "maxConnections",
       current_setting('block_size')::int AS "blockSize",
       has_function_privilege('pg_catalog.pg_control_system()', 'EXECUTE') AS "readsControl"`;

// Before version 15 there is no role pg_checkpoint: only superusers may use CHECKPOINT.
const ROLE = `
SELECT r.rolname AS name, r.rolsuper AS superuser, r.rolcreatedb OR r.rolsuper AS createdb,
       r.rolreplication OR r.rolsuper AS "mayReplicate", ${[
         ['mayCheckpoint', 'pg_checkpoint'],
         ['maySignal', 'pg_signal_backend'],
         ['seesActivity', 'pg_read_all_stats'],
         ['runsPrograms', 'pg_execute_server_program'],
         ['readsFiles', 'pg_read_server_files'],
         ['writesFiles', 'pg_write_server_files'],
       ]
         .map(([right, role]) => `r.rolsuper OR '${role}' = ANY (p.names) AS "${right}"`)
         .join(', ')}
  FROM pg_roles r, LATERAL (SELECT ARRAY(SELECT p.rolname::text FROM pg_roles p
         WHERE p.rolname LIKE 'pg\\_%' AND pg_has_role(p.oid, 'USAGE')) AS names) p
 WHERE r.rolname = current_user`;

// Settings of roles and databases are read from their catalogue: our session may have others, and no view has custom settings.
const SESSION_SETTINGS = `
SELECT coalesce(json_agg(json_build_array(name, value) ORDER BY name, value), '[]') FROM (
  SELECT name || CASE WHEN setrole = 0 THEN ' of the database' WHEN setdatabase = 0 THEN ' of the role' ELSE ' of the role in the database' END AS name,
         value
    FROM pg_db_role_setting, unnest(setconfig) config,
         LATERAL (SELECT split_part(config, '=', 1) AS name, substr(config, strpos(config, '=') + 1) AS value) s
   WHERE setdatabase IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))
     AND setrole IN (0, (SELECT oid FROM pg_roles WHERE rolname = session_user))
  UNION ALL
  SELECT name || ' of the server', reset_val FROM pg_settings
   WHERE source IN ('configuration file', 'command line', 'environment variable') AND context IN ('user', 'superuser')) s`;

// An estimate from the catalog, since relpages is as old as the last VACUUM or ANALYZE: each GB of a relation is a
// file, a table of more than four pages has a free space map, one with all-visible pages a visibility map, and what
// is unlogged an init fork.
const DATABASE = `
SELECT d.oid::int8::float8 AS oid, d.datname AS name, pg_get_userbyid(d.datdba) AS owner, pg_has_role(d.datdba, 'USAGE') AS owned,
       EXISTS (SELECT FROM pg_roles p
                WHERE pg_has_role(d.datdba, p.oid, 'MEMBER')
                  AND (p.rolsuper OR p.rolcreaterole OR p.rolreplication OR p.rolbypassrls
                       OR p.rolname IN ('pg_execute_server_program', 'pg_read_server_files', 'pg_write_server_files'))
              ) AS "ownerHasPowers",
       d.datistemplate AS "isTemplate", t.spcname AS tablespace, pg_database_size(d.oid)::float8 AS "sizeBytes",
       c.relations::float8, c.unlogged::float8 AS "unloggedTables", c.files::float8,
       ARRAY(${EXTERNAL_ACCESS}) AS "externalAccess", (${SESSION_SETTINGS}) AS "sessionSettings"
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

/**
 * Reads the facts about the server, our role and the session's database, in two or three round trips.
 * @throws SafemigrateError `SERVER` for a server other than PostgreSQL, and for a standby unless that is accepted.
 */
async function readFacts(
  session: Session,
  standbyToo = false,
): Promise<Pick<Target, 'server' | 'role' | 'database'>> {
  type Facts = [
    (Omit<ServerFacts, 'systemIdentifier'> & { product: string; readsControl: boolean })[],
    RoleFacts[],
  ];
  const [servers, roles] = (await session.queryAll([SERVER, ROLE])) as Facts;
  const { product, readsControl, ...server } = one(servers);
  const other = OTHERS.find(([word]) => product.includes(word));
  if (other) throw notPostgres(other[1]);
  if (server.inRecovery && !standbyToo) throw standby();
  const { sessionSettings, ...database } = one(await session.query<DatabaseRow>(DATABASE));
  const control = readsControl ? await session.query<{ id: string }>(SYSTEM_IDENTIFIER) : [];
  return {
    server: { ...server, systemIdentifier: control[0]?.id ?? null },
    role: one(roles),
    database: { ...database, sessionSettings: hashesOf(sessionSettings) },
  };
}

type DatabaseRow = Omit<DatabaseFacts, 'sessionSettings'> & {
  readonly sessionSettings: readonly (readonly [name: string, value: string])[];
};

/** Values may be secrets, and are compared only. */
function hashesOf(settings: DatabaseRow['sessionSettings']): Record<string, string> {
  const deciding = settings.filter(([name]) => decidesMeaning(name.split(' ', 1)[0] ?? ''));
  return Object.fromEntries(deciding.map(([name, value]) => [name, shortHash(value)]));
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
