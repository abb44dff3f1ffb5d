import { listed } from '../../format.ts';
import type { StatementSection } from '../../model/report.ts';
import { bare, displayName } from '../../postgres/sql/quote.ts';
import { isNamed } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import type { Severity } from '../severity.ts';
import { ofKind } from './redefined.ts';

/** Statements that succeed without the effect that their text names. */
export const WITHOUT_EFFECT: readonly HazardRecord[] = [
  {
    code: 'SERVER_WARNING',
    title: 'the server warns about a statement',
    condition:
      'A statement succeeded, and the server sent a message of level WARNING with an SQLSTATE of class 25 or 01: SET LOCAL outside of a transaction block, a REVOKE or GRANT that the role may not make. A notice for BEGIN, COMMIT and ROLLBACK, and for warnings that functions raise (SQLSTATE 01000). Messages of level NOTICE are not found.',
    effect:
      'The statement has no effect, or not all of it: without its SET LOCAL lock_timeout, for example, the next statement waits for its lock without a limit. Few tools show the message.',
    safer:
      'Put SET LOCAL and the statements that need it into one transaction block; run GRANT and REVOKE as the owner of the object or the role that granted.',
    find: (context) => context.facts.statements.flatMap(warned),
  },
  {
    code: 'WITHOUT_EFFECT',
    title: 'a policy, a REVOKE, default privileges or DROP … IF EXISTS have no effect',
    condition:
      'A policy is created or changed for a table whose row-level security is off after the command; or a role that a REVOKE names has the privilege all the same: through PUBLIC, through another role, or, for a column, through the whole table. Or ALTER DEFAULT PRIVILEGES without FOR ROLE is sent by a role that owns none of the tables, sequences or functions of the schema after the command, while another role owns at least three. Or DROP CONSTRAINT IF EXISTS finds no constraint, one of the name is added, and another CHECK (that differs in its values), UNIQUE or FOREIGN KEY of the same columns stays.',
    effect:
      'Rows are shown and functions are called by roles that should be kept out, roles lack privileges on what is made later, or rows are refused by the old constraint, and nothing fails.',
    safer:
      'ENABLE ROW LEVEL SECURITY in the same transaction. REVOKE from PUBLIC or from the other role, and GRANT to the roles that need the privilege. ALTER DEFAULT PRIVILEGES FOR ROLE, with the role that makes the objects. DROP CONSTRAINT with the name that the constraint has in production.',
    find: (context) => [
      ...idlePolicies(context),
      ...idleRevokes(context),
      ...idleDefaults(context),
      ...idleDrops(context),
    ],
  },
];

/** Commands that do nothing if a transaction is open already, or none is. */
const OF_TRANSACTIONS = new Set(['BEGIN', 'START TRANSACTION', 'COMMIT', 'ROLLBACK']);
const BY_CODE = '01000';

function warned(statement: StatementSection): Finding[] {
  const { index, tag, error, warnings = [] } = statement;
  const told = warnings.filter(({ sqlstate }) => /^(?:01|25)/.test(sqlstate));
  const texts = [...new Set(told.map(({ message }) => message))];
  const [first] = told;
  if (!first || error !== null) return [];
  const isMild = told.every(({ sqlstate }) => sqlstate === BY_CODE) || OF_TRANSACTIONS.has(tag ?? '');
  const severity: Severity = isMild ? 'notice' : 'warning';
  return [
    {
      statement: index,
      relation: null,
      severity,
      message: `the server warns: ${texts.join('; ')}`,
      evidence: `a message of level WARNING (SQLSTATE ${listed([...new Set(told.map(({ sqlstate }) => sqlstate))])}); ${tag ?? 'the statement'} succeeded all the same`,
      advice:
        tag === 'SET'
          ? sqlAdvice('In one transaction block with the statements that it is for:', 'BEGIN', statement.sql)
          : 'Make sure that the statement has had its effect.',
    },
  ];
}

function idlePolicies(context: HazardContext): Finding[] {
  const { changes = [] } = context.facts.schema ?? {};
  return ofKind(context, 'idle policy').flatMap(({ relation, name }): Finding[] => {
    const object = `${relation}.${displayName(name)}`;
    const isOwn = changes.some(
      (each) =>
        each.kind === 'policy' && each.object === object && (each.verb === 'create' || each.verb === 'alter'),
    );
    if (!isOwn) return [];
    const statement = context.facts.statements.findLast(
      ({ tag, error, sql }) => !error && / POLICY$/.test(tag ?? '') && sql.includes(name),
    );
    return [
      {
        statement: statement?.index ?? null,
        relation,
        severity: 'warning',
        message: `the policy ${object} does nothing: row-level security of ${relation} is off`,
        evidence: 'pg_class.relrowsecurity is false after the command',
        advice: sqlAdvice(
          'In the same transaction, after all policies of the table:',
          `ALTER TABLE ${relation} ENABLE ROW LEVEL SECURITY`,
        ),
      },
    ];
  });
}

function idleRevokes(context: HazardContext): Finding[] {
  return context.facts.catalogue.effects.idleRevokes.map(
    ({ statement, object, role, privileges, through }): Finding => ({
      statement,
      relation: context.relation(object) ? object : null,
      severity: 'warning',
      message: `${displayName(role)} keeps ${listed(privileges)} on ${object} after the REVOKE: through ${listed(through)}`,
      evidence: 'asked of the server after the command (has_table_privilege() and the like)',
      advice: through.includes('PUBLIC')
        ? 'REVOKE it from PUBLIC as well, and GRANT it to the roles that need it.'
        : 'REVOKE it from that role, or from the whole table, and GRANT it to those that need it.',
    }),
  );
}

const FOR_ROLE = /\bFOR\s+(?:ROLE|USER)\b/i;

/** Default privileges of the role that sent the statement, for objects that another role makes. */
function idleDefaults(context: HazardContext): Finding[] {
  const settings = context.facts.statements.filter(
    ({ tag, error }) => tag === 'ALTER DEFAULT PRIVILEGES' && error === null,
  );
  return ofKind(context, 'idle defaults').flatMap(({ relation: role, name, before, after }): Finding[] => {
    const [kind = '', schema] = name.split(' in schema ');
    const [owner = '', privileges] = (after ?? '').split('\n');
    if (before?.split('\n')[1] === privileges) return [];
    const own = settings.filter(
      ({ sql }) =>
        isNamed(sql.toUpperCase(), kind.toUpperCase()) &&
        (schema === undefined ? !/\bIN\s+SCHEMA\b/i.test(sql) : isNamed(sql, bare(schema))),
    );
    const statement = own.findLast(({ sql }) => !FOR_ROLE.test(sql));
    const isMeant = own.some(({ sql }) => FOR_ROLE.test(sql) && isNamed(sql, role));
    if (!statement || isMeant) return [];
    return [
      {
        statement: statement.index,
        relation: null,
        severity: 'warning',
        message: `the default privileges are for ${kind} that ${displayName(role)} makes, which owns none${schema === undefined ? '' : ` in schema ${schema}`}: not for those of ${displayName(owner)}`,
        evidence: `pg_default_acl, and the owners of the ${name} after the command`,
        advice: sqlAdvice(
          'For the role that makes them:',
          statement.sql.replace(
            /\bALTER\s+DEFAULT\s+PRIVILEGES\b/i,
            (words) => `${words} FOR ROLE ${displayName(owner)}`,
          ),
        ),
      },
    ];
  });
}

const IF_EXISTS = /\bDROP\s+CONSTRAINT\s+IF\s+EXISTS\b/i;

/** DROP CONSTRAINT IF EXISTS of a name that was not there, while the constraint that it is to replace has another name. */
function idleDrops(context: HazardContext): Finding[] {
  const drops = context.actionsOn('drop constraint').filter(({ statement }) => IF_EXISTS.test(statement.sql));
  return ofKind(context, 'alike').flatMap(({ relation, name: of, before, after }): Finding[] => {
    const [then, now] = [before, after].map(
      (text) => JSON.parse(text ?? '{}') as Readonly<Record<string, string>>,
    ) as [Readonly<Record<string, string>>, Readonly<Record<string, string>>];
    return drops.flatMap((drop): Finding[] => {
      const { constraint } = drop.action;
      const added = now[constraint];
      const isOwn = drop.relation === relation && added !== undefined && then[constraint] === undefined;
      if (!isOwn || context.changed('drop', `${relation}.${displayName(constraint)}`)) return [];
      const kept = Object.keys(then).filter(
        (other) =>
          then[other] === now[other] &&
          (!of.startsWith('c ') || shapeOf(now[other] ?? '') === shapeOf(added)),
      );
      if (kept.length === 0) return [];
      const others = listed(kept.map((other) => displayName(other)));
      return [
        {
          statement: drop.statement.index,
          relation,
          severity: 'warning',
          message: `${displayName(constraint)} of ${relation} was not there, and is added: ${others}, of the same columns, stays in force`,
          evidence: `pg_constraint before and after the command: ${listed(kept.map((other) => then[other] ?? ''))}`,
          advice: sqlAdvice(
            'If the new one is to take its place, in the same transaction:',
            ...kept.map((other) => `ALTER TABLE ${relation} DROP CONSTRAINT ${displayName(other)}`),
          ),
        },
      ];
    });
  });
}

const VALUE = /'(?:[^']|'')*'|(?<!\w)-?\d+(?:\.\d+)?/g;
const CAST =
  /::(?:character varying|double precision|time(?:stamp)? with(?:out)? time zone|"[^"]+"|[\w.]+)(?:\(\?\))?(?:\[\])?/g;

/** A definition without its values: conditions that differ in these alone are versions of one. */
const shapeOf = (definition: string) =>
  definition
    .replace(VALUE, '?')
    .replace(CAST, '')
    .replace(/[()[\]]/g, '')
    .replace(/\?(?:, \?)+/g, '?');
