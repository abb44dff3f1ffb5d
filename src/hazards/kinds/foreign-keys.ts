import { displayName } from '../../postgres/sql/quote.ts';
import { locksEvidence, relationEvidence } from '../evidence.ts';
import { type Finding, type HazardRecord, lockFinding, metOn, sqlAdvice } from '../hazard-definition.ts';
import { WARNING } from '../thresholds.ts';
import { lastPart, withoutLastPart } from './names.ts';

/** What a foreign key does to the table at its other end. */
export const FOREIGN_KEYS: readonly HazardRecord[] = [
  {
    code: 'DROP_TABLE_LOCKS_REFERENCED',
    title: 'dropping a table locks those that its foreign keys lead to',
    condition: 'DROP TABLE takes ACCESS EXCLUSIVE on another table that was there before the command.',
    effect: 'The referenced table, often a much busier one, cannot be read until the transaction ends.',
    safer: 'Drop its foreign keys first, each in a short transaction with a lock_timeout; then the table.',
    find: (ground) =>
      ground.met('drop').flatMap(({ statement, action }) => {
        if (action.kind !== 'table') return [];
        const named = action.objects.map((object) => ground.resolve(object, statement));
        return ground
          .taken(statement, 'reads')
          .filter(({ relation }) => !named.includes(relation))
          .map((lock) => ({
            ...lockFinding(
              ground,
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
            evidence: locksEvidence(ground, [lock]),
          }));
      }),
  },
  {
    code: 'FOREIGN_KEY_WITHOUT_INDEX',
    title: 'a foreign key has no index on its own side',
    condition:
      'A new foreign key of a table that was there before, whose columns no index of that table begins with.',
    effect: 'Every DELETE, and every UPDATE of the key, in the referenced table reads this whole table.',
    safer: 'CREATE INDEX CONCURRENTLY on the columns of the foreign key first.',
    find: (ground) =>
      [...ground.facts.catalogue.unindexedForeignKeys]
        .filter(([object]) => ground.relation(withoutLastPart(object)) && ground.changed('create', object))
        .map(([object, { columns }]): Finding => {
          const relation = withoutLastPart(object);
          const { sizeBytes, rows } = ground.relation(relation) ?? {};
          const list = columns.map((column) => displayName(column)).join(', ');
          const adding = metOn(ground, 'add constraint').find(
            (met) =>
              met.relation === relation &&
              met.action.kind === 'foreign key' &&
              String(met.action.columns) === String(columns),
          );
          return {
            statement: adding?.statement.index ?? null,
            relation,
            severity:
              (rows ?? 0) >= WARNING.rows || (sizeBytes ?? 0) >= WARNING.sizeBytes ? 'warning' : 'notice',
            message: `no index of ${relation} begins with (${list}), the columns of ${lastPart(object)}`,
            evidence: relationEvidence(ground, relation),
            advice: sqlAdvice('Outside a transaction:', `CREATE INDEX CONCURRENTLY ON ${relation} (${list})`),
          };
        }),
  },
];
