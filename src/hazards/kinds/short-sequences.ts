import { formatCount } from '../../format.ts';
import type { ChangedDefinition } from '../../model/definition-kinds.ts';
import { displayName } from '../../postgres/sql/quote.ts';
import { lastNaming } from '../explained-probes.ts';
import type { HazardContext } from '../hazard-context.ts';
import { type Finding, type HazardRecord, sqlAdvice } from '../hazard-definition.ts';
import { statementOfColumn } from './application.ts';
import { ofKind } from './redefined.ts';

/** Sequences that stay behind when their columns get more room. */
export const SHORT_SEQUENCES: readonly HazardRecord[] = [
  {
    code: 'SEQUENCE_ENDS_EARLY',
    title: 'a column gets more room, and its sequence does not',
    condition:
      'A column of a table that existed before is an integer, a bigint or a numeric, and its default takes values of a sequence that existed before and ends at 32,767 or 2,147,483,647, the end of a smaller type. It did not do so before the command. An identity column changes its sequence itself.',
    effect:
      'nextval() fails with SQLSTATE 2200H at the same value as before: the outage comes that the wider column is to prevent.',
    safer:
      'ALTER SEQUENCE … AS bigint before or after, in a short transaction: nextval() waits for its end (https://www.postgresql.org/docs/current/sql-altersequence.html).',
    find: (context) =>
      ofKind(context, 'short sequence')
        .filter(({ before, relation }) => before === null && context.relation(relation) !== undefined)
        .flatMap((definition) => endingEarly(context, definition)),
  },
];

interface ShortSequence {
  readonly schema: string;
  readonly sequence: string;
  /** Types of the column and of the sequence. */
  readonly column: string;
  readonly type: string;
  readonly end: number;
  /** null: it has given no value, or its state may not be read. */
  readonly last: number | null;
}

function endingEarly(context: HazardContext, { relation, name, after }: ChangedDefinition): Finding[] {
  const { schema, sequence: own, column, type, end, last } = JSON.parse(after ?? '{}') as ShortSequence;
  const sequence = displayName(schema, own);
  // The command chose its end.
  if (context.changed('create', sequence)) return [];
  const object = `${relation}.${displayName(name)}`;
  const { retyped } = context.facts.catalogue.definitions;
  const isRetyped = retyped.some((each) => each.object === object);
  return [
    {
      statement: isRetyped ? statementOfColumn(context, 'alter type', object) : lastNaming(context, sequence),
      relation,
      severity: 'warning',
      message: `${object} ${isRetyped ? 'becomes' : 'is'} ${column}, but its sequence ${sequence} still ends at ${formatCount(end)}`,
      evidence: last === null ? 'the sequence after the command' : `its last value is ${formatCount(last)}`,
      advice: sqlAdvice(
        'In the same migration:',
        `ALTER SEQUENCE ${sequence} ${type === column ? 'NO MAXVALUE' : `AS ${column === 'numeric' ? 'bigint' : column}`}`,
      ),
    },
  ];
}
