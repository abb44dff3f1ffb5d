import { bare, lastPart } from '../../postgres/sql/quote.ts';
import type { HazardContext } from '../hazard-context.ts';
import type { Finding, HazardRecord } from '../hazard-definition.ts';
import { ofKind } from './redefined.ts';

/** Partitions that leave rows without one. */
export const PARTITION_GAPS: readonly HazardRecord[] = [
  {
    code: 'PARTITION_GAP',
    title: 'a new partition leaves a gap to its neighbour',
    condition:
      'A partition of ranges over one column, a number or a time, is made or attached, and its upper bound is below the lower bound of the next partition, or its lower bound above the upper one of the partition before. The gap was not there before the command, and is smaller than both ranges.',
    effect:
      'Rows of the gap go to the DEFAULT partition, or fail with SQLSTATE 23514: the upper bound of a range is exclusive, and the last day of a month is missing.',
    safer:
      "End each range with the lower bound of the next: FROM ('2027-02-01') TO ('2027-03-01') (https://www.postgresql.org/docs/current/ddl-partitioning.html).",
    find: (context) =>
      ofKind(context, 'ranges').flatMap(({ relation, before, after }) =>
        gaps(context, relation, before, after),
      ),
  },
];

/** A partition by its name and bounds; in ascending order. `gap`: smaller than the ranges beside it. */
interface Range {
  readonly partition: string;
  readonly from: string;
  readonly to: string;
  readonly gap: boolean;
}

interface Ranges {
  /** There is a DEFAULT partition. */
  readonly rest: boolean;
  readonly ranges: readonly Range[];
}

const NONE: Ranges = { rest: false, ranges: [] };
const rangesOf = (text: string | null): Ranges => (text === null ? NONE : (JSON.parse(text) as Ranges));

function gaps(
  context: HazardContext,
  relation: string,
  before: string | null,
  after: string | null,
): Finding[] {
  const [then, { rest, ranges }] = [rangesOf(before), rangesOf(after)];
  const had = new Set(then.ranges.map(({ from, to }) => `${from} ${to}`));
  const known = new Set(then.ranges.flatMap(({ to }, at) => `${to} ${then.ranges[at + 1]?.from}`));
  return ranges.flatMap((lower, at): Finding[] => {
    const upper = ranges[at + 1];
    if (!lower.gap || !upper || known.has(`${lower.to} ${upper.from}`)) return [];
    const made = [lower, upper].filter(({ from, to }) => !had.has(`${from} ${to}`));
    if (made.length === 0) return [];
    return [
      {
        statement:
          made.map(({ partition }) => making(context, partition)).find((each) => each !== null) ?? null,
        relation: context.relation(relation) ? relation : null,
        severity: 'warning',
        message: `no partition of ${relation} takes rows from ${lower.to} to before ${upper.from}, between ${lower.partition} and ${upper.partition}: they ${rest ? 'go to the DEFAULT partition' : 'are refused'}`,
        evidence: `${lower.partition} ends before ${lower.to}, since upper bounds are exclusive; ${upper.partition} begins with ${upper.from}`,
        advice: `Let ${lower.partition} end with the bound that ${upper.partition} begins with: FOR VALUES FROM (${lower.from}) TO (${upper.from}).`,
      },
    ];
  });
}

/** The statement that makes or attaches a partition. */
function making(context: HazardContext, partition: string): number | null {
  const name = bare(lastPart(partition));
  const attached = context
    .actionsOf('attach partition')
    .findLast(({ action }) => action.partition.name === name);
  const created = context.actionsOf('create table').findLast(({ action }) => action.table.name === name);
  return (attached ?? created)?.statement.index ?? null;
}
