import { formatCount } from '../../format.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type HazardRecord, sqlAdvice } from '../hazard-definition.ts';

/** Tables that a migration leaves in a state in which writes fail, or in which rows are wrong. */
export const INTEGRITY: readonly HazardRecord[] = [
  {
    code: 'REPLICA_IDENTITY_LOST',
    title: 'UPDATE and DELETE fail on a published table',
    condition:
      'A table that a publication publishes UPDATE or DELETE of has no replica identity after the command, and had one before, or was not published: its primary key is gone, the index of its identity, or it says NOTHING.',
    effect:
      'Every UPDATE and DELETE of it fails (SQLSTATE 55000), whether anybody subscribes or not. INSERTs succeed, and so does preparing the statements (https://www.postgresql.org/docs/current/logical-replication-publication.html).',
    safer:
      'In the same transaction give the table another identity: REPLICA IDENTITY USING INDEX of a unique index on NOT NULL columns, or FULL.',
    find: (context) =>
      context.facts.catalogue.identityLost.map((relation) => ({
        statement: statementThatTookIdentity(context, relation),
        relation,
        severity: 'error',
        message: `UPDATE and DELETE of ${relation} fail: it is published, and has no replica identity any more`,
        evidence: relationEvidence(context, relation),
        advice: sqlAdvice(
          'In the same transaction:',
          `ALTER TABLE ${relation} REPLICA IDENTITY USING INDEX …`,
        ),
      })),
  },
  {
    code: 'FOREIGN_KEY_VIOLATED',
    title: 'rows violate a foreign key that counts as valid',
    condition:
      'The command switched off the triggers of foreign keys (DISABLE TRIGGER ALL, session_replication_role = replica), and afterwards a valid foreign key from or to a table that it wrote has rows without a parent. They are counted on the clone.',
    effect:
      'Joins lose rows, code fails on parents that are not there, and a later dump cannot be restored. Enabling the triggers again checks nothing.',
    safer:
      'Load the rows with the triggers on, or drop the foreign key, load, add it NOT VALID and validate it (https://www.postgresql.org/docs/current/sql-altertable.html).',
    find: (context) =>
      context.facts.catalogue.orphans.map(({ relation, constraint, references, rows }) => ({
        statement: context.facts.statements.find(({ index }) => skipsTriggers(context, index))?.index ?? null,
        relation,
        severity: rows === null ? 'warning' : 'error',
        message:
          rows === null
            ? `rows of ${relation} may violate the foreign key ${constraint}: its triggers were off`
            : `${formatCount(rows)} ${rows === 1 ? 'row' : 'rows'} of ${relation} have no parent in ${references}`,
        evidence:
          rows === null
            ? 'the rows without a parent could not be counted in time'
            : `counted after the command; ${constraint} was not checked while they were written`,
        advice: sqlAdvice(
          'In the same migration, so that the key is checked:',
          `ALTER TABLE ${relation} DROP CONSTRAINT ${displayName(constraint)}`,
          `ALTER TABLE ${relation} ADD CONSTRAINT ${displayName(constraint)} FOREIGN KEY … NOT VALID`,
          `ALTER TABLE ${relation} VALIDATE CONSTRAINT ${displayName(constraint)}`,
        ),
      })),
  },
];

/** The last statement on the table that can have taken its identity; for one that was published, that statement. */
function statementThatTookIdentity(context: HazardContext, relation: string): number | null {
  const found = context.facts.statements.findLast((statement) =>
    context
      .actions(statement)
      .some(
        (action) =>
          (action.does === 'drop constraint' ||
            action.does === 'replica identity' ||
            action.does === 'drop') &&
          context.held(statement, relation) !== undefined,
      ),
  );
  return (
    (found ?? context.facts.statements.findLast(({ tag }) => tag?.endsWith(' PUBLICATION')))?.index ?? null
  );
}

function skipsTriggers({ facts }: HazardContext, index: number): boolean {
  const actions = facts.parsed.get(index)?.actions ?? [];
  return actions.some(
    (action) => action.does === 'skip triggers' || (action.does === 'disable trigger' && action.system),
  );
}
