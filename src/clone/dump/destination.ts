import { tmpdir } from 'node:os';
import type { Target } from '../../database/target.ts';
import { messageOf, sqlstateOf } from '../../errors.ts';
import { embeddedBinaries, type ServerVersion } from '../../local-server/binaries.ts';
import { startServer } from '../../local-server/embedded.ts';
import { makeWorkFolder } from '../../local-server/folder-cleaner.ts';
import type { Caveat } from '../../model/report.ts';
import { nameTarget } from '../../ownership/folder-records.ts';
import type { ConnectionSettings } from '../../postgres/connection/connection-settings.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { identifier } from '../../postgres/sql/quote.ts';
import type { Scope } from '../../scope.ts';
import type { CloneContext, CloneServer } from '../method.ts';
import { lostServer, ownControl } from '../own-sessions.ts';
import { settingClause } from '../properties.ts';

/** The server on which a dump is restored: the target's, the one of --clone-to, or a private one. */
export type DestinationKind = 'same-server' | 'rehearsal-server' | 'embedded-server';

export interface Destination extends CloneServer {
  readonly kind: DestinationKind;
  /** The connection with which the database is created, restored and analyzed. */
  readonly owner: ConnectionSettings;
  /** The connection with which the command arrives. */
  readonly login: ConnectionSettings;
  readonly caveats: readonly Caveat[];
}

/** Chooses the server of --clone-to if there is one, else the target's if databases can be created there. */
export function destinationKind({ target, rehearsal }: CloneContext): DestinationKind {
  if (rehearsal) return 'rehearsal-server';
  return target.role.superuser || target.role.createdb ? 'same-server' : 'embedded-server';
}

export function majorOf({ server }: Pick<Target, 'server'>): number {
  return Math.floor(server.versionNum / 10_000);
}

/** Opens the destination. @throws SafemigrateError `SERVER` if no private server can be started. */
export async function openDestination(
  context: CloneContext,
  kind: DestinationKind,
  scope: Scope,
): Promise<Destination> {
  if (kind === 'embedded-server') return startOwn(context, scope);
  const ground = context.rehearsal ?? context;
  const { target, control, lockDatabaseOid } = ground;
  // The clone's name and mark refer to the target on any server.
  const named = { ...target, database: { ...target.database, name: context.target.database.name } };
  const { settings } = target;
  return {
    kind,
    control,
    lockDatabaseOid,
    owner: settings,
    login: settings,
    target: named,
    caveats: kind === 'same-server' ? [] : [anotherServer('the server of --clone-to')],
  };
}

/** Checks that a server of the target's major version can be started here. @throws SafemigrateError `SERVER` */
export async function requireOwnServer({ target }: CloneContext): Promise<void> {
  await embeddedBinaries(majorOf(target) as ServerVersion);
}

async function startOwn(context: CloneContext, scope: Scope): Promise<Destination> {
  const { target: found, run } = context;
  const server = await scope.own(
    'server of the clone',
    async () =>
      startServer({
        version: majorOf(found) as ServerVersion,
        place: await makeWorkFolder(tmpdir(), 'clone', nameTarget(found)),
        // This superuser's name must not be one that a role of the target could have.
        user: `safemigrate_${run}`,
        openSocket: true,
      }),
    async (started) => started?.stop(),
  );
  const place = { hosts: [{ host: server.socketFolder, port: server.port }], sslmode: 'disable' } as const;
  const owner = { ...place, user: server.user, database: 'postgres', parameters: {} };
  const target = { ...found, settings: owner };
  const control = await ownControl(context, target, scope);
  control.onLost((reason) => context.fail(lostServer(reason)));
  const unknown = await repeatRoles(context.control, control, found.server.versionNum);
  const { options, client_encoding } = found.settings.parameters;
  const parameters = {
    ...(options === undefined ? {} : { options }),
    ...(client_encoding === undefined ? {} : { client_encoding }),
  };
  return {
    kind: 'embedded-server',
    target,
    control,
    lockDatabaseOid: 0,
    owner,
    login: { ...place, user: found.settings.user, database: found.database.name, parameters },
    caveats: [
      anotherServer('a server of its own on this machine, which gives nothing to the disk (fsync is off)'),
      ...unknown.map(
        (reason): Caveat => ({ path: 'clone', kind: 'unmeasured', reason: `setting not carried: ${reason}` }),
      ),
    ],
  };
}

function anotherServer(which: string): Caveat {
  return {
    path: 'clone',
    kind: 'estimate',
    reason: `the clone was restored on ${which}: settings, hardware and load differ from the target's`,
  };
}

const ROLES = `
SELECT rolname AS name, rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls,
       rolconnlimit AS "limit"
  FROM pg_roles WHERE rolname !~ '^pg_' ORDER BY oid`;

/** Since version 16 each membership has its own INHERIT and SET options. */
const OPTIONS_SINCE = 160000;

function membershipsQuery(versionNum: number): string {
  const more = versionNum >= OPTIONS_SINCE ? ', a.inherit_option AS inherit, a.set_option AS "set"' : '';
  return `
SELECT r.rolname AS role, m.rolname AS member, a.admin_option AS admin${more}
  FROM pg_auth_members a JOIN pg_roles r ON r.oid = a.roleid JOIN pg_roles m ON m.oid = a.member`;
}

const SETTINGS = `
SELECT CASE WHEN s.setrole <> 0 THEN pg_get_userbyid(s.setrole) END AS role,
       split_part(c.setting, '=', 1) AS name, substr(c.setting, strpos(c.setting, '=') + 1) AS value
  FROM pg_db_role_setting s, unnest(s.setconfig) WITH ORDINALITY c(setting, position)
 WHERE s.setdatabase = 0
 ORDER BY s.setrole, c.position`;

interface Membership {
  role: string;
  member: string;
  admin: boolean;
  inherit?: boolean;
  set?: boolean;
}

const ATTRIBUTES = [
  ['rolsuper', 'SUPERUSER'],
  ['rolinherit', 'INHERIT'],
  ['rolcreaterole', 'CREATEROLE'],
  ['rolcreatedb', 'CREATEDB'],
  ['rolcanlogin', 'LOGIN'],
  ['rolreplication', 'REPLICATION'],
  ['rolbypassrls', 'BYPASSRLS'],
] as const;

type Role = { name: string; limit: number } & Record<(typeof ATTRIBUTES)[number][0], boolean>;

/**
 * Creates the roles of one server on another of the same version, with attributes, memberships and settings, but without
 * passwords, which only superusers may read.
 * @returns settings that the other server does not know.
 */
export async function repeatRoles(from: Session, to: Session, versionNum: number): Promise<string[]> {
  const roles = await from.query<Role>(ROLES);
  const memberships = await from.query<Membership>(membershipsQuery(versionNum));
  await to.query([...roles.map(roleStatement), ...memberships.map(membershipStatement)].join(';\n'));
  const unknown: string[] = [];
  for (const { role, name, value } of await from.query<{ role: string | null; name: string; value: string }>(
    SETTINGS,
  )) {
    const of = role === null ? 'ALL' : identifier(role);
    try {
      await to.query(`ALTER ROLE ${of} ${settingClause(name, value)}`);
    } catch (error) {
      if (sqlstateOf(error) === undefined) throw error;
      unknown.push(`${name} of ${role ?? 'all roles'}: ${messageOf(error)}`);
    }
  }
  return unknown;
}

function roleStatement(role: Role): string {
  const attributes = ATTRIBUTES.map(([key, word]) => (role[key] ? word : `NO${word}`));
  return `CREATE ROLE ${identifier(role.name)} ${attributes.join(' ')} CONNECTION LIMIT ${role.limit}`;
}

function membershipStatement({ role, member, admin, inherit, set }: Membership): string {
  const grant = `GRANT ${identifier(role)} TO ${identifier(member)}`;
  if (inherit === undefined || set === undefined) return admin ? `${grant} WITH ADMIN OPTION` : grant;
  return `${grant} WITH ADMIN ${admin}, INHERIT ${inherit}, SET ${set}`;
}
