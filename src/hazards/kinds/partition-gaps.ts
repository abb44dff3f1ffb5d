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
      'A partition of ranges over one column, a number or a time, is made or attached, and its upper bound is below the lower bound of the next partition, or its lower bound above the upper one of the partition before. The gap was not there before the command, and is smaller than both ranges; or there was none in the table before, which has no DEFAULT partition. Or a partition that begins with a month is the last one, and ends up to two days before the end of a month, while all others begin and end with months.',
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

/** A partition by its name and bounds; in ascending order. */
interface Range {
  readonly partition: string;
  readonly from: string;
  readonly to: string;
  /** The next one begins later. */
  readonly apart: boolean;
  /** By less than the width of the two. */
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
  const had = new Set(then.ranges.map(boundsOf));
  const known = new Set(then.ranges.flatMap(({ to }, at) => `${to} ${then.ranges[at + 1]?.from}`));
  const wasWhole = !rest && then.ranges.length > 1 && then.ranges.every(meetsNext);
  const found = (
    made: readonly Range[],
    texts: Pick<Finding, 'message' | 'evidence' | 'advice'>,
  ): Finding => ({
    statement: made.map(({ partition }) => making(context, partition)).find((each) => each !== null) ?? null,
    relation: context.relation(relation) ? relation : null,
    severity: 'warning',
    ...texts,
  });
  const fate = rest ? 'go to the DEFAULT partition' : 'are refused';
  const between = ranges.flatMap((lower, at): Finding[] => {
    const upper = ranges[at + 1];
    const isGap = lower.gap || (wasWhole && lower.apart);
    if (!isGap || !upper || known.has(`${lower.to} ${upper.from}`)) return [];
    const made = [lower, upper].filter((range) => !had.has(boundsOf(range)));
    if (made.length === 0) return [];
    return [
      found(made, {
        message: `no partition of ${relation} takes rows from ${lower.to} to before ${upper.from}, between ${lower.partition} and ${upper.partition}: they ${fate}`,
        evidence: `${lower.partition} ends before ${lower.to}, since upper bounds are exclusive; ${upper.partition} begins with ${upper.from}`,
        advice: lower.gap
          ? `Let ${lower.partition} end with the bound that ${upper.partition} begins with: FOR VALUES FROM (${lower.from}) TO (${upper.from}).`
          : `Make a partition between them, too: FOR VALUES FROM (${lower.to}) TO (${upper.from}).`,
      }),
    ];
  });
  const last = ranges.at(-1);
  if (rest || !last || had.has(boundsOf(last)) || then.ranges.length === 0) return between;
  const end = endOfMonth(last);
  if (end === null || !then.ranges.every(isOfMonths)) return between;
  return [
    ...between,
    found([last], {
      message: `no partition of ${relation} takes rows from ${last.to} to before ${end}, the end of the month: they ${fate}`,
      evidence: `${last.partition} ends before ${last.to}, since upper bounds are exclusive; all partitions before the command end with a month`,
      advice: `Let ${last.partition} end with the first day of the next month: FOR VALUES FROM (${last.from}) TO (${end}).`,
    }),
  ];
}

const boundsOf = ({ from, to }: Range) => `${from} ${to}`;

function meetsNext({ to }: Range, at: number, ranges: readonly Range[]): boolean {
  const next = ranges[at + 1];
  return next === undefined || next.from === to;
}

const OPEN = /^(?:MINVALUE|MAXVALUE)$/;
/** A date, and a time with or without an offset from UTC, as the server writes them. */
const MOMENT = /^'(\d{4})-(\d\d)-(\d\d)(?: (\d\d:\d\d:\d\d(?:\.\d+)?)(?:[+-][\d:]+)?)?'$/;
const MIDNIGHT = '00:00:00';

function isFirstOfMonth(bound: string): boolean {
  const [, , , day, time = MIDNIGHT] = MOMENT.exec(bound) ?? [];
  return day === '01' && time === MIDNIGHT;
}

const isOfMonths = ({ from, to }: Range) =>
  [from, to].every((bound) => OPEN.test(bound) || isFirstOfMonth(bound));

/** Returns the bound that ends the month which a range lacks the last day or two of; null: it lacks none, or does not begin with a month. */
function endOfMonth({ from, to }: Range): string | null {
  const [, year, month, day, time] = MOMENT.exec(to) ?? [];
  if (day === undefined || !isFirstOfMonth(from) || isFirstOfMonth(to)) return null;
  const next = new Date(Date.UTC(Number(year), Number(month), 1));
  const lastDay = new Date(next.getTime() - 1).getUTCDate();
  if (Number(day) < lastDay - 1) return null;
  return `'${next.toISOString().slice(0, 10)}${time === undefined ? '' : ` ${MIDNIGHT}`}'`;
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
