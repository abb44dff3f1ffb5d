import { listed } from '../../format.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { lastNaming } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, sqlAdvice } from '../hazard-definition.ts';
import { ofKind } from './redefined.ts';

/** A role before and after the command. */
interface ChangedRole {
  readonly name: string;
  readonly before: Role | null;
  readonly after: Role | null;
}

interface Role {
  readonly name: string;
  /** `LOGIN`, `SUPERUSER`, `BYPASSRLS`, `EXPIRED`. */
  readonly attributes: ReadonlySet<string>;
  readonly connectionLimit: number;
}

const LIMIT = /^CONNECTION LIMIT (\d+)$/;

function roleOf(text: string | null): Role | null {
  if (text === null) return null;
  const [name = '', ...attributes] = text.split('\n');
  const limit = attributes.flatMap((each) => LIMIT.exec(each)?.[1] ?? [])[0];
  return {
    name,
    attributes: new Set(attributes),
    connectionLimit: limit === undefined ? Number.POSITIVE_INFINITY : Number(limit),
  };
}

/** The roles that the command made, changed, or dropped. */
function changedRoles(context: HazardContext): ChangedRole[] {
  return ofKind(context, 'role').map(({ before, after }): ChangedRole => {
    const [then, now] = [roleOf(before), roleOf(after)];
    const name = then?.name ?? now?.name ?? '';
    return { name, before: then, after: now };
  });
}

/** Tells if the command made a role, by its name without quotes. */
export function isNewRole(context: HazardContext, role: string): boolean {
  return ofKind(context, 'role').some(({ before, after }) => before === null && roleOf(after)?.name === role);
}

const of = (context: HazardContext, role: string) => ({
  statement: lastNaming(context, displayName(role)),
  relation: null,
  severity: 'warning' as const,
});

/** Finds roles that can no longer log in as before, or lose the privileges of another role. */
export function closedRoles(context: HazardContext): Finding[] {
  const logins = changedRoles(context).flatMap(({ name, before, after }): Finding[] => {
    const lost =
      before?.attributes.has('LOGIN') && !before.attributes.has('EXPIRED') ? lossOf(before, after) : null;
    if (lost === null) return [];
    return [
      {
        ...of(context, name),
        message: `${displayName(name)}, which logs in, ${lost}`,
        evidence: 'pg_roles before and after the command',
        advice: 'Make sure that nothing connects as this role any more, or needs more sessions.',
      },
    ];
  });
  return [...logins, ...leftRoles(context)];
}

/** Returns the loss of a role that logs in; null: there is none. */
function lossOf(before: Role, after: Role | null): string | null {
  if (after === null) return 'is dropped';
  if (after.name !== before.name)
    return `is renamed to ${displayName(after.name)}: logins by its old name fail`;
  if (!after.attributes.has('LOGIN')) return 'loses LOGIN';
  if (after.attributes.has('EXPIRED'))
    return 'gets a VALID UNTIL in the past: its password is taken no longer';
  return after.connectionLimit < before.connectionLimit
    ? `gets a CONNECTION LIMIT of ${after.connectionLimit}${Number.isFinite(before.connectionLimit) ? `, and had ${before.connectionLimit}` : ''}`
    : null;
}

/** Finds roles that log in and get past privileges or policies. */
export function widenedRoles(context: HazardContext): Finding[] {
  const attributes = changedRoles(context).flatMap(({ before, after }): Finding[] => {
    const more = ['SUPERUSER', 'BYPASSRLS'].filter(
      (each) => after?.attributes.has(each) && !before?.attributes.has(each),
    );
    if (!after?.attributes.has('LOGIN') || before?.attributes.has('SUPERUSER') || more.length === 0)
      return [];
    const role = displayName(after.name);
    return [
      {
        ...of(context, after.name),
        message: `${role}, which logs in, ${before === null ? 'is made with' : 'gets'} ${listed(more)}: ${more[0] === 'SUPERUSER' ? 'it may do everything' : 'no policy is for it'}`,
        evidence: 'pg_roles before and after the command',
        advice: sqlAdvice(
          'If it need not:',
          `ALTER ROLE ${role} ${more.map((each) => `NO${each}`).join(' ')}`,
        ),
      },
    ];
  });
  return [...attributes, ...joinedRoles(context)];
}

/** Roles that log in, by the role whose members they become or are no longer. */
interface Memberships {
  readonly role: string;
  readonly members: readonly string[];
  readonly powers: ReadonlySet<string>;
}

function memberships(context: HazardContext, which: 'new' | 'lost'): Memberships[] {
  const found = new Map<string, { members: string[]; powers: Set<string> }>();
  for (const { before, after } of ofKind(context, 'membership')) {
    const [text, other] = which === 'new' ? [after, before] : [before, after];
    if (text === null || other !== null) continue;
    const [member = '', role = '', ...powers] = text.split('\n');
    if (isNewRole(context, member) || isNewRole(context, role) || isDropped(context, member, role)) continue;
    const known = found.get(role) ?? { members: [], powers: new Set(powers) };
    if (powers.length > 0) known.members.push(member);
    found.set(role, known);
  }
  return [...found].flatMap(([role, each]) => (each.members.length > 0 ? [{ role, ...each }] : []));
}

function isDropped(context: HazardContext, ...roles: string[]): boolean {
  return ofKind(context, 'role').some(
    ({ before, after }) => after === null && roles.includes(roleOf(before)?.name ?? ''),
  );
}

const names = (roles: readonly string[]) =>
  listed(
    roles.map((each) => displayName(each)),
    { atMost: 3 },
  );

/** Memberships by which a role may do what tables and policies keep from others. */
function joinedRoles(context: HazardContext): Finding[] {
  return memberships(context, 'new').flatMap(({ role, members, powers }): Finding[] => {
    const why = powers.has('superuser')
      ? 'may do everything'
      : powers.has('BYPASSRLS')
        ? 'is not subject to policies'
        : powers.has('predefined')
          ? 'reaches all data or files of the server'
          : powers.has('owner')
            ? 'owns tables of the database, and may drop them'
            : null;
    if (why === null) return [];
    return [
      {
        ...of(context, role),
        message: `${names(members)}, which may log in, ${members.length === 1 ? 'becomes a member' : 'become members'} of ${displayName(role)}, which ${why}`,
        evidence: 'pg_auth_members before and after the command',
        advice: sqlAdvice(
          'GRANT the privileges that are needed instead:',
          `REVOKE ${displayName(role)} FROM ${members.map((each) => displayName(each)).join(', ')}`,
        ),
      },
    ];
  });
}

/** Memberships that are taken from roles which get none and no privilege in exchange. */
function leftRoles(context: HazardContext): Finding[] {
  const gained = new Set(memberships(context, 'new').flatMap(({ members }) => members));
  const grants = (context.facts.schema?.changes ?? []).filter(({ verb }) => verb === 'grant');
  return memberships(context, 'lost').flatMap(({ role, members, powers }): Finding[] => {
    const own = members.filter(
      (member) => !gained.has(member) && !grants.some(({ sql }) => sql.includes(` TO "${member}"`)),
    );
    const lost = powers.has('owner')
      ? 'owns tables of the database'
      : 'has privileges on tables of the database';
    const counts = ['owner', 'granted', 'predefined', 'superuser'].some((each) => powers.has(each));
    if (own.length === 0 || !counts) return [];
    return [
      {
        ...of(context, role),
        message: `${names(own)}, which may log in, ${own.length === 1 ? 'is' : 'are'} no longer ${own.length === 1 ? 'a member' : 'members'} of ${displayName(role)}, which ${powers.has('owner') || powers.has('granted') ? lost : 'reaches all data'}`,
        evidence: 'pg_auth_members before and after the command',
        advice: `Make sure that nothing that needs the privileges of ${displayName(role)} still runs as ${names(own)}.`,
      },
    ];
  });
}
