import { messageOf, sqlstateOf } from '../errors.ts';
import type { Session } from '../postgres/connection/session.ts';
import { identifier, literal } from '../postgres/sql/quote.ts';

/**
 * The properties that CREATE DATABASE … TEMPLATE does not copy: owner, privileges, settings, security labels, connection limit.
 * A rehearsal needs the target's search_path and timeouts to be realistic.
 */
export interface DatabaseProperties {
  readonly owner: string;
  /** The role has the owner's rights, and so keeps them once the clone belongs to the owner. */
  readonly sharesOwnership: boolean;
  readonly connectionLimit: number;
  /** Null for the default privileges. */
  readonly grants: Grant[] | null;
  readonly settings: Setting[];
  readonly labels: { readonly provider: string; readonly label: string }[];
}

interface Grant {
  readonly grantor: string;
  /** Null for PUBLIC. */
  readonly grantee: string | null;
  readonly privilege: string;
  readonly grantable: boolean;
}

interface Setting {
  /** Null for a setting that applies to all roles. */
  readonly role: string | null;
  readonly name: string;
  readonly value: string;
}

/** A property that could not be carried over, and why. */
export interface NotCarried {
  readonly property: string;
  readonly sqlstate: string | undefined;
  readonly reason: string;
}

const DATABASE = (oid: number) => `
SELECT pg_get_userbyid(datdba) AS owner, pg_has_role(datdba, 'USAGE') AS "sharesOwnership",
       datconnlimit AS "connectionLimit", datacl IS NULL AS "defaultPrivileges"
  FROM pg_database WHERE oid = ${oid}`;

/** The owner's own grants come first, since others' grants may depend on them. */
const GRANTS = (oid: number) => `
SELECT pg_get_userbyid(a.grantor) AS grantor,
       CASE WHEN a.grantee <> 0 THEN pg_get_userbyid(a.grantee) END AS grantee,
       a.privilege_type AS privilege, a.is_grantable AS grantable
  FROM pg_database d, aclexplode(d.datacl) a
 WHERE d.oid = ${oid}
 ORDER BY a.grantor <> d.datdba, a.grantor, a.grantee, a.privilege_type`;

const SETTINGS = (oid: number) => `
SELECT CASE WHEN s.setrole <> 0 THEN pg_get_userbyid(s.setrole) END AS role,
       split_part(c.setting, '=', 1) AS name, substr(c.setting, strpos(c.setting, '=') + 1) AS value
  FROM pg_db_role_setting s, unnest(s.setconfig) WITH ORDINALITY c(setting, position)
 WHERE s.setdatabase = ${oid}
 ORDER BY s.setrole, c.position`;

const LABELS = (oid: number) => `
SELECT provider, label FROM pg_shseclabel
 WHERE classoid = 'pg_catalog.pg_database'::regclass AND objoid = ${oid} ORDER BY provider`;

export async function readProperties(session: Session, databaseOid: number): Promise<DatabaseProperties> {
  const asked = [DATABASE, GRANTS, SETTINGS, LABELS].map((question) => question(databaseOid));
  const [[database], grants, settings, labels] = (await session.queryAll(asked)) as [
    (Omit<DatabaseProperties, 'grants' | 'settings' | 'labels'> & { defaultPrivileges: boolean })[],
    Grant[],
    DatabaseProperties['settings'],
    DatabaseProperties['labels'],
  ];
  if (!database) throw new Error(`no database with OID ${databaseOid}`);
  const { defaultPrivileges, ...facts } = database;
  return { ...facts, grants: defaultPrivileges ? null : grants, settings, labels };
}

/** Settings whose value is a list of quoted words: SET takes each word by itself, since the quoted whole would be one word. */
const LIST_SETTINGS = new Set([
  'search_path',
  'temp_tablespaces',
  'local_preload_libraries',
  'session_preload_libraries',
  'shared_preload_libraries',
  'unix_socket_directories',
]);

/** Lists the statements for each property, with its name for the report. */
function carryingSteps(name: string, properties: DatabaseProperties) {
  const database = identifier(name);
  const steps = properties.settings.map(({ role, name: setting, value }) => ({
    property: role === null ? `setting ${setting}` : `setting ${setting} of role ${role}`,
    statements: [
      `${role === null ? `ALTER DATABASE ${database}` : `ALTER ROLE ${identifier(role)} IN DATABASE ${database}`} ` +
        settingClause(setting, value),
    ],
  }));
  steps.push(
    ...properties.labels.map(({ provider, label }) => ({
      property: `security label of ${provider}`,
      statements: [`SECURITY LABEL FOR ${identifier(provider)} ON DATABASE ${database} IS ${literal(label)}`],
    })),
  );
  // If this role lacks the owner's rights, it could neither open nor drop the clone afterwards.
  if (properties.sharesOwnership) {
    steps.push({
      property: ownerProperty(properties),
      statements: [`ALTER DATABASE ${database} OWNER TO ${identifier(properties.owner)}`],
    });
  }
  if (properties.grants !== null)
    steps.push(...privilegeSteps(database, properties.owner, properties.grants));
  return steps;
}

/** Formats `SET name TO value` with the value of the catalog. */
export function settingClause(name: string, value: string): string {
  const words = LIST_SETTINGS.has(name.toLowerCase()) ? listOfLiterals(value) : literal(value);
  return `SET ${identifier(name)} TO ${words}`;
}

function ownerProperty({ owner }: DatabaseProperties): string {
  return `owner ${owner}`;
}

/**
 * The owner's grants are one step, so that the clone is never more open than the target because another role's grant could not
 * be repeated.
 */
function privilegeSteps(database: string, owner: string, grants: Grant[]) {
  const own = grants.filter(({ grantor }) => grantor === owner);
  const others = grants.filter(({ grantor }) => grantor !== owner);
  return [
    {
      property: 'privileges',
      statements: [
        `REVOKE ALL ON DATABASE ${database} FROM PUBLIC, ${identifier(owner)}`,
        // A grant by the owner, a member of it or a superuser is recorded as the owner's.
        ...own.map((grant) => grantStatement(database, grant)),
      ],
    },
    ...others.map((grant) => ({
      property: `privilege ${grant.privilege} of ${grant.grantee ?? 'PUBLIC'}, granted by ${grant.grantor}`,
      statements: [
        `SET LOCAL ROLE ${identifier(grant.grantor)}`,
        grantStatement(database, grant),
        'RESET ROLE',
      ],
    })),
  ];
}

function grantStatement(database: string, { privilege, grantee, grantable }: Grant): string {
  const to = grantee === null ? 'PUBLIC' : identifier(grantee);
  return `GRANT ${privilege} ON DATABASE ${database} TO ${to}${grantable ? ' WITH GRANT OPTION' : ''}`;
}

/** `"$user", public` as `'$user', 'public'`: an empty word cannot be written as an identifier, and a long one is cut. */
function listOfLiterals(value: string): string {
  const words = value.matchAll(/\s*(?:"((?:[^"]|"")*)"|([^,]*[^,\s]))\s*(?:,|$)/g);
  const list = [...words].map(([, quoted, plain = '']) => literal(quoted?.replaceAll('""', '"') ?? plain));
  return list.length === 0 ? "''" : list.join(', ');
}

/**
 * Gives the database these properties in one transaction, which finally permits connections to it.
 * @returns the properties that the role may not set, for the report. @throws any other failure.
 */
export async function carryProperties(
  session: Session,
  name: string,
  properties: DatabaseProperties,
): Promise<NotCarried[]> {
  const notCarried: NotCarried[] = [];
  if (!properties.sharesOwnership) {
    const reason = `this role lacks the rights of ${properties.owner}, and could not drop a clone that belongs to it`;
    notCarried.push({ property: ownerProperty(properties), sqlstate: undefined, reason });
  }
  await session.query('BEGIN');
  try {
    for (const { property, statements } of carryingSteps(name, properties)) {
      await session.query('SAVEPOINT property');
      try {
        for (const statement of statements) await session.query(statement);
        await session.query('RELEASE SAVEPOINT property');
      } catch (error) {
        const sqlstate = sqlstateOf(error);
        if (!MAY_BE_LEFT_OUT.test(sqlstate ?? '')) throw error;
        await session.query('ROLLBACK TO SAVEPOINT property');
        notCarried.push({ property, sqlstate, reason: messageOf(error) });
      }
    }
    await session.query(opening(name, properties));
    await session.query('COMMIT');
  } catch (error) {
    await session.query('ROLLBACK').catch(() => {});
    throw error;
  }
  return notCarried;
}

/** Lists the statements that carryProperties() sends if none fails. */
export function carryingStatements(name: string, properties: DatabaseProperties): string[] {
  const steps = carryingSteps(name, properties).flatMap(({ statements }) => [
    'SAVEPOINT property',
    ...statements,
    'RELEASE SAVEPOINT property',
  ]);
  return ['BEGIN', ...steps, opening(name, properties), 'COMMIT'];
}

function opening(name: string, { connectionLimit }: DatabaseProperties): string {
  return `ALTER DATABASE ${identifier(name)} ALLOW_CONNECTIONS true CONNECTION LIMIT ${connectionLimit}`;
}

/**
 * Recognizes a missing privilege, role or setting, and a value that is no longer valid or that this session cannot check: by
 * SQLSTATE class, since each setting has a check of its own. Lost connections, cancels, conflicts and full disks are not among them.
 */
const MAY_BE_LEFT_OUT = /^(0L|0P|22|28|2B|42|55P02|58)/;
