import { formatCount, formatRate, formatTime, listed } from '../../format.ts';
import type { QueriesSection, Report } from '../../model/report.ts';
import { ARROW, type Item, type ItemList, named, type Phrase, type Section, sql } from '../view/section.ts';

type Query = Pick<QueriesSection['broken'][number], 'sql' | 'callsPerSecond'>;
type Refused = NonNullable<QueriesSection['refused']>[number];
type Slower = QueriesSection['slower'][number];

/** Queries of the running application. */
export function queriesView({ queries }: Report): Section[] {
  if (queries === null) return [];
  const { broken, slower, refused = [], changedRow = [] } = queries;
  const some = broken.length + slower.length + refused.length + changedRow.length > 0;
  const list = (more: string, items: readonly Item[]): ItemList => ({ kind: 'items', more, items });
  return [
    {
      id: 'queries',
      title: 'Queries',
      summary: summaryOf(queries),
      folds: some ? 'never' : 'in-comment',
      importance: 8,
      blocks: [
        list(
          'broken',
          broken.map(({ error, ...query }) =>
            item('bad', 'broken', query, `${error.message} (SQLSTATE ${error.sqlstate})`),
          ),
        ),
        list(
          'refused',
          refused.map((query) => item('bad', 'refused', query, refusalOf(query))),
        ),
        list(
          'with other columns',
          changedRow.map((query) =>
            item('warning', 'other columns', query, 'sessions that prepared it get an error once'),
          ),
        ),
        list(
          'slower',
          slower.map((query) => item('warning', 'slower', query, slowerOf(query))),
        ),
        { kind: 'paragraph', text: 'None was run.', shownIn: ['html'] },
      ],
    },
  ];
}

function summaryOf({
  broken,
  slower,
  refused = [],
  changedRow = [],
  checked,
  skipped,
  source,
  countedSince,
  planned,
}: QueriesSection): string {
  const counts = [
    ...(broken.length > 0
      ? [`${formatCount(broken.length)} NO LONGER WORK${broken.length === 1 ? 'S' : ''}`]
      : []),
    ...(refused.length > 0 ? [`${formatCount(refused.length)} to be refused`] : []),
    ...(changedRow.length > 0 ? [`${formatCount(changedRow.length)} with other columns`] : []),
    ...(slower.length > 0 ? [`${formatCount(slower.length)} with a more expensive plan`] : []),
  ];
  const still = counts.length === 0 ? 'all still work' : counts.join(', ');
  const { failedBefore, hidden, utility, others: ofTools = 0 } = skipped;
  const failed = failedBefore === 0 ? '' : `; ${formatCount(failedBefore)} already failed before`;
  const unseen = hidden === 0 ? '' : `; the text of ${formatCount(hidden)} is hidden from the role`;
  const others = utility === 0 ? '' : `; ${formatCount(utility)} cannot be prepared`;
  const tools = ofTools === 0 ? '' : `; ${formatCount(ofTools)} of tools left out`;
  const costs = planned || checked === 0 ? '' : '; none could be planned';
  const since = countedSince === null ? '' : `, counted since ${formatTime(countedSince)}`;
  return `${formatCount(checked)} of the application (${source}${since}): ${still}${failed}${unseen}${others}${tools}${costs}`;
}

function item(mark: 'bad' | 'warning', tag: string, query: Query, why: Phrase): Item {
  const rate = query.callsPerSecond === null ? [] : [`${formatRate(query.callsPerSecond)}: `];
  return { mark, tag, text: [...rate, sql(query.sql)], notes: [{ text: why }] };
}

function refusalOf({ relation, columns, constraint }: Refused): Phrase {
  const names = listed(columns);
  if (constraint !== undefined) return [named(relation), ` refuses it: ${constraint} (${names})`];
  return [named(relation), ` refuses it: no value for ${names}, and no default`];
}

function slowerOf(query: Slower): Phrase {
  const { costBefore, costAfter, nodeBefore, nodeAfter, untilAnalyzed = [], atProductionSize } = query;
  const [before, after] = [costBefore, costAfter].map((cost) => formatCount(Math.round(cost)));
  return [
    `cost ${before} `,
    ARROW,
    ` ${after}${atProductionSize ? " at production's size" : ''}`,
    ...(nodeBefore === null || nodeAfter === null ? [] : [`, ${nodeBefore} `, ARROW, ` ${nodeAfter}`]),
    ...(untilAnalyzed.length === 0 ? [] : [`; until ANALYZE of ${listed(untilAnalyzed)}`]),
  ];
}
