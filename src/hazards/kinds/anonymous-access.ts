import type { StatementSection } from '../../model/report.ts';
import { bare, displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import { isNamed } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, sqlAdvice } from '../hazard-definition.ts';
import { ofKind } from './redefined.ts';
import { defaultsRevoked, gained, settingDefaults } from './widened-access.ts';

/** Finds what requests without a login may see or do from now on. */
export function openedToAnonymous(context: HazardContext): Finding[] {
  return [...tablesOpened(context), ...viewsOpened(context), ...laterTablesOpened(context)];
}

export const requestsAs = (role: string) => `${displayName(role)}, the role of requests without a login,`;

/** The last GRANT that names a relation. */
function naming(context: HazardContext, relation: string): StatementSection | undefined {
  const [schema, name] = [bare(withoutLastPart(relation)), bare(lastPart(relation))];
  return context.facts.statements.findLast(
    (statement) =>
      statement.tag === 'GRANT' &&
      statement.error === null &&
      isNamed(statement.sql, name) &&
      (isNamed(statement.sql, schema) || context.reaches({ schema: null, name }, schema, statement)),
  );
}

/** A GRANT that names a table to be read may be meant; one of writing, or of all tables, or by default seldom is. */
function tablesOpened(context: HazardContext): Finding[] {
  return ofKind(context, 'anonymous').flatMap(({ relation, name: role, before, after }): Finding[] => {
    const more = gained(before, after);
    if (more.length === 0) return [];
    const statement = naming(context, relation);
    const isMeant = statement !== undefined && more.every((privilege) => privilege === 'SELECT');
    const known = context.relation(relation) !== undefined;
    return [
      {
        statement: statement?.index ?? null,
        relation: known ? relation : null,
        severity: isMeant ? 'notice' : 'warning',
        message: `${requestsAs(role)} may ${more.join(', ')} on ${relation}, all rows of it`,
        evidence: `row-level security of ${relation} is off${known ? `; ${relationEvidence(context, relation)}` : ''}`,
        advice: sqlAdvice(
          'Enable row-level security, with policies for the rows that it may see, or instead:',
          `REVOKE ${more.join(', ')} ON ${relation} FROM ${displayName(role)}`,
        ),
      },
    ];
  });
}

/** Views that write as their owner to tables on which the role may have no privilege. */
function viewsOpened(context: HazardContext): Finding[] {
  return ofKind(context, 'anonymous view').flatMap(({ relation, name: role, before, after }): Finding[] => {
    const more = gained(before, after);
    if (more.length === 0) return [];
    return [
      {
        statement: naming(context, relation)?.index ?? null,
        relation: null,
        severity: 'warning',
        message: `${requestsAs(role)} may ${more.join(', ')} through the view ${relation}`,
        evidence: 'the view writes to its table as its owner, and row-level security of the table is off',
        advice: sqlAdvice(
          'If the view is only to be read:',
          `REVOKE ${more.join(', ')} ON ${relation} FROM ${displayName(role)}`,
        ),
      },
    ];
  });
}

/** Changes of ALTER DEFAULT PRIVILEGES. */
function laterTablesOpened(context: HazardContext): Finding[] {
  return ofKind(context, 'anonymous later').flatMap(({ relation: maker, name, before, after }): Finding[] => {
    const more = gained(before, after);
    const [role = '', schema] = name.split(' in schema ');
    if (more.length === 0) return [];
    return [
      {
        statement: settingDefaults(context, maker, schema),
        relation: null,
        severity: 'warning',
        message: `${requestsAs(role)} gets ${more.join(', ')} on each table${schema === undefined ? '' : ` in schema ${schema}`} that ${displayName(maker)} makes from now on`,
        evidence: 'pg_default_acl before and after the command; row-level security of a new table is off',
        advice: sqlAdvice(
          'GRANT it for each table that the role may see, and instead:',
          defaultsRevoked(maker, schema, more, 'table', displayName(role)),
        ),
      },
    ];
  });
}
