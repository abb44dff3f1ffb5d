import { formatCount, formatDuration, listed } from '../../format.ts';
import type { StatementSection } from '../../model/report.ts';
import type { ActionOf } from '../../model/statement-actions.ts';
import { displayName, lastPart, literal, withoutLastPart } from '../../postgres/sql/quote.ts';
import { relationEvidence } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { errorOf, subjectOf } from './failures.ts';

/** Objects that are left unfinished. */
export const LEFTOVERS: readonly HazardRecord[] = [
  {
    code: 'INDEX_LEFT_INVALID',
    title: 'an index is left INVALID',
    condition:
      'After the command an index is invalid: the command left it so, or IF NOT EXISTS found an old invalid one.',
    effect:
      'No query uses it, every write maintains it, and CREATE INDEX IF NOT EXISTS accepts it as the index.',
    safer: 'DROP INDEX CONCURRENTLY and build it again.',
    find: (context) =>
      (context.facts.schema?.leftovers ?? [])
        .filter(({ kind }) => kind === 'invalid index')
        .flatMap(({ object, preexisting }): Finding[] => {
          const kept = keeping(context, object);
          if (preexisting && !kept) return [];
          const maker = kept ?? making(context, object);
          return [
            {
              statement: maker?.index ?? null,
              relation: maker ? subjectOf(context, maker) : null,
              severity: 'error',
              message: kept
                ? `IF NOT EXISTS accepts the existing INVALID index ${object}`
                : `the index ${object} is left INVALID`,
              evidence: maker?.error ? errorOf(maker) : 'pg_index.indisvalid is false after the command',
              advice: sqlAdvice(
                'Drop it before it is built again:',
                `DROP INDEX CONCURRENTLY IF EXISTS ${object}`,
              ),
            },
          ];
        }),
  },
  {
    code: 'CONSTRAINT_LEFT_NOT_VALID',
    title: 'a constraint is left NOT VALID',
    condition:
      'The command added a constraint NOT VALID and did not validate it. A warning if rows violate it: VALIDATE CONSTRAINT is tried on the clone and rolled back.',
    effect:
      'New rows satisfy it, old ones may not: the planner does not use it, and SET NOT NULL still reads the table. An UPDATE of a row that violates it fails, whatever column it changes.',
    safer: 'VALIDATE CONSTRAINT in a later transaction, which does not block reads and writes.',
    find: (context) =>
      (context.facts.schema?.leftovers ?? [])
        .filter(({ kind, preexisting }) => kind === 'constraint not valid' && !preexisting)
        .flatMap(({ object }): Finding[] => {
          const owner = withoutLastPart(object);
          const ofTable = context.actionsOn('add constraint').find(({ part }) => part === object);
          const ofDomain = context
            .actionsOf('alter domain')
            .find(
              ({ action }) => action.adds === 'check' && displayName(action.domain.name) === lastPart(owner),
            );
          const isTable = context.relation(owner) !== undefined;
          if (!isTable && !ofDomain) return [];
          const violated = context.facts.catalogue.effects.violated.find(
            ({ constraint }) => constraint === object,
          );
          return [
            {
              statement: (isTable ? ofTable : ofDomain)?.statement.index ?? null,
              relation: isTable ? owner : null,
              severity: violated ? 'warning' : 'notice',
              message: `the constraint ${object} is left NOT VALID${violated ? ', and rows violate it: each UPDATE of one of them fails' : ''}`,
              evidence: violated
                ? `VALIDATE CONSTRAINT on the clone: ${violated.error}`
                : relationEvidence(context, owner),
              advice: sqlAdvice(
                violated ? 'Correct the rows that violate it, then:' : 'In a later transaction:',
                `ALTER ${isTable ? 'TABLE' : 'DOMAIN'} ${owner} VALIDATE CONSTRAINT ${lastPart(object)}`,
              ),
            },
          ];
        }),
  },
  {
    code: 'TRANSACTION_LEFT_PREPARED',
    title: 'a transaction is left prepared',
    condition:
      'The command ended a transaction by PREPARE TRANSACTION, and neither COMMIT PREPARED nor ROLLBACK PREPARED followed.',
    effect:
      'Nothing of it is in effect, and it keeps its locks, even over a restart of the server, until somebody ends it. VACUUM cannot remove what it may still see.',
    safer: 'COMMIT, or let the command end with COMMIT PREPARED.',
    find: (context) =>
      context.facts.catalogue.leftPrepared.map(({ gid, ageMs, locks }) => ({
        statement: preparing(context, gid)?.index ?? null,
        relation: locks[0]?.relation ?? null,
        severity: 'error',
        message: `the transaction ${literal(gid)} is left prepared: its changes are not in effect, and its locks stay`,
        evidence: `pg_prepared_xacts has it ${formatDuration(ageMs)} after it was prepared, when the command had ended; it holds ${listed(locks.map(({ relation, mode }) => `${mode} on ${relation}`)) || 'no lock on a table that others see'}`,
        advice: sqlAdvice(
          `End the command with this statement (or take the transaction back by ROLLBACK PREPARED ${literal(gid)}):`,
          `COMMIT PREPARED ${literal(gid)}`,
        ),
      })),
  },
];

/** Finds the statement that prepared a transaction, of several by that identifier the last. */
function preparing(context: HazardContext, gid: string): StatementSection | undefined {
  return context.facts.statements.findLast(
    ({ tag, sql }) => tag === 'PREPARE TRANSACTION' && sql.includes(literal(gid)),
  );
}

function keeping(context: HazardContext, index: string): StatementSection | undefined {
  const isMade = context.facts.schema?.leftovers.some(
    ({ object, preexisting }) => object === index && !preexisting,
  );
  if (isMade) return undefined;
  return context.facts.statements.find(
    (statement) => !statement.error && makes(context, statement, index, ({ ifNotExists }) => ifNotExists),
  );
}

function making(context: HazardContext, index: string): StatementSection | undefined {
  return context.facts.statements.find((statement) => makes(context, statement, index, () => true));
}

/** Tells if the statement creates the index; an index is in the schema of its table. */
function makes(
  context: HazardContext,
  statement: StatementSection,
  index: string,
  when: (action: ActionOf<'create index'>) => boolean,
): boolean {
  return context
    .actionsIn(statement, 'create index')
    .some(
      ({ action }) =>
        action.index !== null &&
        displayName(action.index) === lastPart(index) &&
        withoutLastPart(context.resolve(action.table, statement)) === withoutLastPart(index) &&
        when(action),
    );
}

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
