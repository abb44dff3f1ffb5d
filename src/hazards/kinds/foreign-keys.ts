import { displayName, lastPart, withoutLastPart } from '../../postgres/sql/quote.ts';
import { changedRows, totalRows } from '../changed-rows.ts';
import { locksEvidence, relationEvidence, rowCount } from '../evidence.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, lockFinding, sqlAdvice } from '../hazard-definition.ts';
import { milder, weighRows } from '../severity.ts';
import { WARNING } from '../thresholds.ts';
import { indexOfDrop } from './dropped-objects.ts';

/** Effects of foreign keys on the table at their other end. */
export const FOREIGN_KEYS: readonly HazardRecord[] = [
  {
    code: 'DROP_TABLE_LOCKS_REFERENCED',
    title: 'dropping a table locks the tables that its foreign keys reference',
    condition: 'DROP TABLE takes ACCESS EXCLUSIVE on another table that existed before the command.',
    effect: 'The referenced table, often a much busier one, cannot be read until the transaction ends.',
    safer: 'First drop its foreign keys, each in a short transaction with a lock_timeout; then the table.',
    find: (context) =>
      context.actionsOf('drop').flatMap(({ statement, action }) => {
        if (action.kind !== 'table') return [];
        const named = action.objects.map((object) => context.resolve(object, statement));
        return context
          .taken(statement, 'reads')
          .filter(({ relation }) => !named.includes(relation))
          .map((lock) => ({
            ...lockFinding(
              context,
              statement,
              lock.relation,
              `reads and writes of ${lock.relation} wait while ${named.join(', ')} is dropped`,
              sqlAdvice(
                'First, in a transaction of its own:',
                "SET lock_timeout = '2s'",
                `ALTER TABLE ${named[0] ?? '…'} DROP CONSTRAINT …`,
              ),
              true,
            ),
            evidence: locksEvidence(context, [lock]),
          }));
      }),
  },
  {
    code: 'FOREIGN_KEY_VALIDATED_AT_ONCE',
    title: 'a foreign key is validated in the transaction that adds it',
    condition:
      'ADD FOREIGN KEY … NOT VALID and VALIDATE CONSTRAINT in one transaction, on a table that existed before the command.',
    effect:
      'SHARE ROW EXCLUSIVE on both tables is held while all rows are read, as without NOT VALID: every write to both waits.',
    safer:
      'Commit between the two: VALIDATE CONSTRAINT alone lets writes go on (https://www.postgresql.org/docs/current/sql-altertable.html, notes on VALIDATE CONSTRAINT).',
    find: (context) =>
      context.actionsOn('validate constraint').flatMap(({ statement, relation, action }) => {
        const added = context
          .actionsOn('add constraint')
          .find(
            (each) =>
              each.relation === relation &&
              each.action.kind === 'foreign key' &&
              each.action.notValid &&
              each.action.constraint === action.constraint &&
              each.statement.index < statement.index &&
              each.statement.transaction === statement.transaction,
          );
        if (!added) return [];
        const others = added.action.references ? [context.resolve(added.action.references, statement)] : [];
        return [
          lockFinding(
            context,
            statement,
            relation,
            `writes to ${context.existing([relation, ...others]).join(' and ')} wait while the foreign key ${displayName(action.constraint)} is validated`,
            sqlAdvice(
              'In a transaction of its own, after the one that adds it is committed:',
              `ALTER TABLE ${relation} VALIDATE CONSTRAINT ${displayName(action.constraint)}`,
            ),
          ),
        ];
      }),
  },
  {
    code: 'FOREIGN_KEY_WITHOUT_INDEX',
    title: 'a foreign key has no index on the referencing table',
    condition:
      'A new foreign key of an existing table, and no index of that table begins with its columns; or the command dropped the only index that does; or it deletes rows that such a key refers to, which reads the table once for each.',
    effect: 'Every DELETE in the referenced table, and every UPDATE of its key, reads this whole table.',
    safer: 'First CREATE INDEX CONCURRENTLY on the columns of the foreign key.',
    find: (context) => [
      ...[...context.facts.catalogue.unindexedForeignKeys]
        .filter(
          ([object, { known }]) =>
            !known &&
            context.relation(withoutLastPart(object)) &&
            (context.changed('create', object) || lostItsIndex(context, withoutLastPart(object))),
        )
        .map(([object, { columns }]): Finding => {
          const isNew = context.changed('create', object);
          const relation = withoutLastPart(object);
          const { sizeBytes, rows } = context.relation(relation) ?? {};
          const list = columns.map((column) => displayName(column)).join(', ');
          const adding = context
            .actionsOn('add constraint')
            .find(
              (found) =>
                found.relation === relation &&
                found.action.kind === 'foreign key' &&
                String(found.action.columns) === String(columns),
            );
          return {
            statement: isNew ? (adding?.statement.index ?? null) : droppingIndex(context, relation),
            relation,
            severity:
              (rows ?? 0) >= (isNew ? WARNING.rows : SCANNED_ROWS) || (sizeBytes ?? 0) >= WARNING.sizeBytes
                ? 'warning'
                : 'notice',
            message: `no index of ${relation} begins with (${list})${isNew ? '' : ' any more'}, the columns of ${lastPart(object)}`,
            evidence: relationEvidence(context, relation),
            advice: adviceFor(relation, columns),
          };
        }),
      ...readByDeletes(context),
    ],
  },
];

function adviceFor(relation: string, columns: readonly string[]): string {
  const list = columns.map((column) => displayName(column)).join(', ');
  return sqlAdvice('Outside a transaction:', `CREATE INDEX CONCURRENTLY ON ${relation} (${list})`);
}

/** Deletes for each of whose rows the server reads all of another table: the command waits, and holds its locks meanwhile. */
function readByDeletes(context: HazardContext): Finding[] {
  const deleted = changedRows(context, context.facts.statements, false).filter(
    ({ verb }) => verb === 'delete',
  );
  return [...context.facts.catalogue.unindexedForeignKeys.values()].flatMap((key): Finding[] => {
    const { known, relation, references, columns } = key;
    const own = deleted.filter((each) => context.former(each.relation) === context.former(references));
    const [first] = own;
    const read = totalRows(own) * (context.relation(relation)?.rows ?? 0);
    if (!known || !first || read < WARNING.rows) return [];
    const list = columns.map((column) => displayName(column)).join(', ');
    return [
      {
        statement: first.statement.index,
        relation,
        severity: milder(weighRows(read, null)),
        message: `each row that is deleted from ${references} reads all of ${relation}: no index begins with (${list})`,
        evidence: `${rowCount(
          totalRows(own),
          own.every(({ counted }) => counted),
        )} of ${references} deleted; ${relationEvidence(context, relation)}`,
        advice: adviceFor(relation, columns),
      },
    ];
  });
}

/** Deletes that found their rows by an index read a table of so many rows from then on. */
const SCANNED_ROWS = 10_000;

/** Tells if an index may have been dropped, and the key is not merely found under another name of its table or columns. */
function lostItsIndex(context: HazardContext, relation: string): boolean {
  const isRenamed = (context.facts.schema?.renames ?? []).some(
    ({ kind, to }) => to === relation || (kind === 'column' && withoutLastPart(to) === relation),
  );
  return !isRenamed && droppedKeys(context, relation).length > 0;
}

/** Dropped indexes that may have been of the table, and dropped constraints of it. */
function droppedKeys(context: HazardContext, relation: string) {
  const schema = withoutLastPart(relation);
  return [
    ...context.changes('drop', 'index').filter(({ object }) => withoutLastPart(object) === schema),
    ...context.changes('drop', 'constraint').filter(({ object }) => withoutLastPart(object) === relation),
  ];
}

function droppingIndex(context: HazardContext, relation: string): number | null {
  const [index = null] = droppedKeys(context, relation).flatMap(
    ({ kind, object }) => indexOfDrop(context, kind, object) ?? [],
  );
  return index;
}
