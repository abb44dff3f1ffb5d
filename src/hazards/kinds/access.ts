import { relationEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, metOn } from '../hazard-definition.ts';
import { milder, weighBreakage } from '../severity.ts';
import { bare, withoutLastPart } from './names.ts';

/** Who may see and do what. */
export const ACCESS: readonly HazardRecord[] = [
  {
    code: 'POLICY_CHANGED',
    title: 'row security is changed',
    condition:
      'A policy of a table that was there before is made, changed or dropped, or row security is switched on or off for it.',
    effect:
      'Without an error queries return fewer rows, or rows that they should not; with no policy at all they return none.',
    safer:
      'Policies first, ENABLE ROW LEVEL SECURITY last, in one transaction; and look with the role of the application.',
    find: (ground) => [...policies(ground), ...rowSecurity(ground)],
  },
  {
    code: 'PRIVILEGES_REVOKED',
    title: 'privileges are taken away',
    condition: 'A role has lost a privilege on an object that was there before the command.',
    effect: 'Code that runs as this role fails with SQLSTATE 42501 from the commit on.',
    safer: 'Move the application to a role that has what it needs first; then revoke.',
    find: (ground) =>
      revocations(ground).map(({ object, relation, role, lost }) => ({
        statement:
          ground.facts.statements.find(
            ({ tag, error, sql }) => tag === 'REVOKE' && !error && sql.includes(bare(object)),
          )?.index ?? null,
        relation,
        severity: relation === null ? ('notice' as const) : milder(weighBreakage(ground, relation)),
        message: `${role} loses ${lost} on ${object}`,
        evidence:
          relation === null ? 'who runs as this role is not known' : relationEvidence(ground, relation),
        advice: `See that nothing that needs it runs as ${role} any more.`,
      })),
  },
];

interface Revocation {
  readonly object: string;
  readonly relation: string | null;
  readonly role: string;
  readonly lost: string;
}

const GRANT = /^GRANT (.+?) (ON .+) TO ("(?:[^"]|"")*"|PUBLIC)(?: WITH GRANT OPTION)?$/;
const REVOKE = /^REVOKE .+? (ON .+) FROM ("(?:[^"]|"")*"|PUBLIC)$/;

/**
 * The schema comparison takes away all privileges of a role on an object and grants anew those that it keeps, there and
 * on the way back: what is granted on the way back and not on the way there is lost.
 */
function revocations(ground: HazardContext): Revocation[] {
  const { schema } = ground.facts;
  if (!schema) return [];
  const kept = granted(schema.changes.map(({ sql }) => sql));
  const had = schema.rollbackSql === null ? undefined : granted(schema.rollbackSql.split(';\n'));
  return schema.changes.flatMap(({ verb, sql, kind, object }): Revocation[] => {
    const [, on, role] = REVOKE.exec(sql) ?? [];
    if (verb !== 'revoke' || on === undefined || role === undefined) return [];
    if (ground.changed('create', object)) return [];
    const after = kept.get(`${on} TO ${role}`) ?? [];
    const before = had?.get(`${on} TO ${role}`);
    const lost = before?.filter((privilege) => !after.includes(privilege) && !after.includes('ALL'));
    if (had && (lost ?? []).length === 0) return [];
    const relation = kind === 'column' ? withoutLastPart(object) : object;
    return [
      {
        object,
        relation: ground.relation(relation) ? relation : null,
        role: role.replaceAll('"', ''),
        lost: lost ? lost.join(', ') : 'privileges',
      },
    ];
  });
}

/** By object and role: `ON TABLE "public"."orders" TO "reporting"`. */
function granted(statements: readonly string[]): Map<string, string[]> {
  const grants = new Map<string, string[]>();
  for (const sql of statements) {
    const [, privileges, on, role] = GRANT.exec(sql.trim()) ?? [];
    if (privileges === undefined) continue;
    const key = `${on} TO ${role}`;
    grants.set(key, [...(grants.get(key) ?? []), ...privileges.split(/,\s*/)]);
  }
  return grants;
}

function policies(ground: HazardContext): Finding[] {
  return (ground.facts.schema?.changes ?? [])
    .filter(
      ({ kind, verb, object }) =>
        kind === 'policy' && verb !== 'comment' && ground.relation(withoutLastPart(object)),
    )
    .map(({ verb, object }) => {
      const relation = withoutLastPart(object);
      const past = { create: 'made', drop: 'dropped' }[verb as string] ?? 'changed';
      return {
        statement:
          ground.facts.statements.find(
            ({ tag, error, sql }) => !error && / POLICY$/.test(tag ?? '') && sql.includes(bare(object)),
          )?.index ?? null,
        relation,
        severity: milder(weighBreakage(ground, relation)),
        message: `the policy ${object} is ${past}`,
        evidence: relationEvidence(ground, relation),
        advice: "Look at the table with the application's role, before and after.",
      };
    });
}

function rowSecurity(ground: HazardContext): Finding[] {
  return metOn(ground, 'row security').map(({ statement, relation, action }) => ({
    statement: statement.index,
    relation,
    severity: milder(weighBreakage(ground, relation)),
    message: `row security of ${relation} is switched ${action.enable ? 'on' : 'off'}`,
    evidence: relationEvidence(ground, relation),
    advice: "Look at the table with the application's role, before and after.",
  }));
}
