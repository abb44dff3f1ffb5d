import { formatDuration, plural } from '../../format.ts';
import type { Caveat } from '../../model/report.ts';
import {
  FIRST_USER_OID,
  QUALIFIED_NAME,
  RELATIONS_AND_SCHEMAS,
  USER_SCHEMA,
} from '../../postgres/catalogue/user-objects.ts';
import { openSession } from '../../postgres/connection/connect.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { withSession } from '../../postgres/session-helpers.ts';
import type { CloneContext } from '../method.ts';
import type { DestinationKind } from './destination.ts';

/** Facts that a restored copy of the target depends on. */
export type DumpFacts = Awaited<ReturnType<typeof readDumpFacts>>;

const UNREADABLE = `
SELECT ${QUALIFIED_NAME} AS name
  FROM ${RELATIONS_AND_SCHEMAS}
 WHERE c.relkind IN ('r', 'p', 'S') AND ${USER_SCHEMA}
   AND (NOT has_schema_privilege(n.oid, 'USAGE') OR NOT has_table_privilege(c.oid, 'SELECT')
        OR c.relrowsecurity AND row_security_active(c.oid))
 ORDER BY 1 LIMIT 4`;

// CREATE EXTENSION creates members of extensions and sets their owner; OIDs below 16384 are the system's own.
const OWNERS = `
SELECT DISTINCT pg_get_userbyid(o.owner) AS name
  FROM (SELECT 'pg_class'::regclass::oid, oid, relowner FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
        UNION ALL SELECT 'pg_proc'::regclass, oid, proowner FROM pg_proc
        UNION ALL SELECT 'pg_type'::regclass, oid, typowner FROM pg_type WHERE typtype IN ('e', 'd', 'r') OR typrelid = 0
        UNION ALL SELECT 'pg_namespace'::regclass, oid, nspowner FROM pg_namespace
        UNION ALL SELECT 'pg_publication'::regclass, oid, pubowner FROM pg_publication
        UNION ALL SELECT 'pg_default_acl'::regclass, oid, defaclrole FROM pg_default_acl) o(class, oid, owner)
 WHERE o.oid >= ${FIRST_USER_OID}
   AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = o.class AND d.objid = o.oid AND d.deptype = 'e')`;

// Only a role that may create in a schema can become owner of its objects. Before version 15 each could in public.
const GUESTS = `
SELECT DISTINCT pg_get_userbyid(o.owner) AS name
  FROM (SELECT oid, relnamespace, relowner FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
        UNION ALL SELECT oid, pronamespace, proowner FROM pg_proc
        UNION ALL SELECT oid, typnamespace, typowner FROM pg_type WHERE typtype IN ('e', 'd', 'r')) o(oid, schema, owner)
  JOIN pg_namespace n ON n.oid = o.schema
 WHERE o.oid >= ${FIRST_USER_OID} AND ${USER_SCHEMA} AND NOT pg_has_role(o.owner, n.nspowner, 'USAGE')
   AND NOT (n.nspname = 'public' AND current_setting('server_version_num')::int < 150000)`;

const GRANTEES = `
SELECT DISTINCT r.rolname AS name
  FROM pg_shdepend d JOIN pg_roles r ON r.oid = d.refobjid
  JOIN pg_database b ON b.oid = d.dbid AND b.datname = current_database()
 WHERE d.refclassid = 'pg_authid'::regclass AND d.deptype IN ('a', 'r')`;

const SUBSCRIPTIONS = `
SELECT count(*)::int AS n FROM pg_subscription s JOIN pg_database d ON d.oid = s.subdbid
 WHERE d.datname = current_database()`;

/** Lists tables that the role may not read; pg_dump fails on the first. */
export function unreadableTables(context: TargetAccess): Promise<string[]> {
  return readInTarget(context, (session) => namesIn(session, UNREADABLE));
}

/** Reads what a restored copy needs, over one session in the target. */
export function readDumpFacts(context: TargetAccess) {
  return readInTarget(context, async (session) => {
    const [row] = await session.query<{ n: number }>(SUBSCRIPTIONS);
    return {
      /** Roles that own objects in the target. */
      owners: await namesIn(session, OWNERS),
      /** Roles that have privileges, or that a policy names. */
      grantees: await namesIn(session, GRANTEES),
      /** Owners of objects in a schema in which only a grant lets them create; a restore repeats grants last. */
      guests: await namesIn(session, GUESTS),
      subscriptions: row?.n ?? 0,
    };
  });
}

async function namesIn(session: Session, sql: string): Promise<string[]> {
  return (await session.query<{ name: string }>(sql)).map(({ name }) => name);
}

/** Since version 16 SET ROLE needs a privilege of its own; before, each member may. */
const SET_SINCE = 160000;

function unusable(right: 'SET' | 'MEMBER'): string {
  return `
SELECT w.name FROM unnest($1::text[]) AS w(name)
 WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = w.name AND pg_has_role(r.oid, '${right}'))`;
}

const MISSING = `
SELECT w.name FROM unnest($1::text[]) AS w(name)
 WHERE NOT EXISTS (SELECT FROM pg_roles r WHERE r.rolname = w.name)`;

const IS_SUPERUSER = 'SELECT rolsuper AS is FROM pg_roles WHERE rolname = current_user';

/**
 * Finds roles that the restoring role cannot make owner of objects, or that do not exist on that server.
 * @param session on the server that is restored into.
 */
export async function rolesOutOfReach(
  session: Session,
  versionNum: number,
  { owners, grantees, guests }: DumpFacts,
): Promise<string[]> {
  const ask = async (sql: string, roles: readonly string[]) =>
    (await session.query<{ name: string }>(sql, [roles])).map(({ name }) => name);
  const owning = await ask(unusable(versionNum >= SET_SINCE ? 'SET' : 'MEMBER'), owners);
  const [role] = await session.query<{ is: boolean }>(IS_SUPERUSER);
  const late = role?.is ? [] : guests;
  return [...new Set([...owning, ...late, ...(await ask(MISSING, grantees))])].sort();
}

/** The part of a context that is needed to read the target. */
type TargetAccess = Pick<CloneContext, 'target' | 'run' | 'audit' | 'signal'>;

/** Opens a read-only session in the target, reads over it, and closes it, so that it is not in the way of the clone. */
async function readInTarget<T>(
  { target, run, audit, signal }: TargetAccess,
  read: (session: Session) => Promise<T>,
): Promise<T> {
  return withSession(
    openSession(target.settings, { run, audit, signal, purpose: 'inspect', readOnly: true }),
    read,
  );
}

/** Describes for the report what the dump did to the target's server. */
export function touches(context: CloneContext, kind: DestinationKind, transferMs: number): string[] {
  const time = formatDuration(transferMs);
  const restored = `a copy was restored on its server, through WAL, in ${time}`;
  const dumped =
    `pg_dump held a snapshot (nothing newer was vacuumed away) and ACCESS SHARE locks on all tables, which DDL waits ` +
    `for, for up to ${time}`;
  return [...(context.source ? [] : [dumped]), ...(kind === 'same-server' ? [restored] : [])];
}

/** Describes how a restored copy differs from the target, and what of the target it hides. */
export function dumpCaveats(
  { options, source }: CloneContext,
  { subscriptions }: DumpFacts,
  { kind, missing, sameLocale }: { kind: DestinationKind; missing: readonly string[]; sameLocale: boolean },
): Caveat[] {
  const reasons = [
    'the clone was restored from a dump: its tables and indexes are without bloat, and smaller than those of the target',
    'its indexes were rebuilt: a damaged unique index of the target, which may stop the command there, does not show',
  ];
  if (source) reasons.push('it was dumped from a standby, which may be behind');
  if (missing.length > 0)
    reasons.push(
      `its objects belong to the role that created it, and it has no privileges of others: ${missing.join(', ')} ` +
        'cannot be used there; row security, which an owner bypasses, does not stop the command there as it does in production',
    );
  if (kind === 'rehearsal-server')
    reasons.push(
      'its roles are those of the server of --clone-to: timeouts and other settings of roles, and row security, may not hold for the command as they do in production',
    );
  if (!sameLocale)
    reasons.push("the server does not know the target's locale: text is sorted in another way");
  if (subscriptions > 0) reasons.push(`it is without ${plural(subscriptions, 'subscription')} of the target`);
  return [
    ...reasons.map((reason): Caveat => ({ path: 'clone', kind: 'estimate', reason })),
    ...rowsLeftOut(options).map((reason): Caveat => ({ path: 'clone.sizeBytes', kind: 'estimate', reason })),
  ];
}

function rowsLeftOut({ schemaOnly, excludeTableData }: CloneContext['options']): string[] {
  const tables = excludeTableData.join(', ');
  return [
    ...(schemaOnly ? ['its tables have no rows (--schema-only): times and data tell nothing'] : []),
    ...(tables === '' ? [] : [`tables like ${tables} have no rows (SAFEMIGRATE_EXCLUDE_TABLE_DATA)`]),
  ];
}
