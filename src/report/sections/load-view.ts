import { formatCount, formatDuration } from '../../format.ts';
import type { LoadedRunSection, LoadSection, Report } from '../../model/report.ts';
import { loadFigure } from '../html/timeline-html.ts';
import { loadDetails } from '../load-phrases.ts';
import {
  type Block,
  type Cell,
  drawing,
  IN_FULL,
  type Item,
  named,
  type Section,
  sql,
} from '../view/section.ts';

const LISTED = 5;

/** What the target's traffic felt on a second clone. */
export function loadView({ load }: Report): Section[] {
  if (!load) return [];
  return [
    {
      id: 'load',
      title: 'Under load',
      summary: `${load.origin}; ${formatCount(load.clients)} sessions`,
      folds: 'in-comment',
      importance: 8,
      blocks: [
        { kind: 'items', items: loadDetails(load).map((text) => ({ text })) },
        { kind: 'paragraph', text: 'The marked time is that of the command.', shownIn: ['html'] },
        ...overTime(load),
        blockedTable(load),
        { kind: 'items', items: load.failures.map(failureItem), listed: LISTED, shownIn: IN_FULL },
        { kind: 'items', items: load.deadlocks.map(deadlockItem), listed: LISTED, shownIn: IN_FULL },
      ],
      parts: load.guarded ? [guardedView(load, load.guarded)] : [],
    },
  ];
}

function overTime(run: LoadedRunSection): Block[] {
  return [drawing(() => loadFigure(run)), phaseTable(run)];
}

function phaseTable(run: LoadedRunSection): Block {
  const titles = ['transactions', 'a second', 'failed', 'p50', 'p95', 'p99', 'longest'];
  return {
    kind: 'table',
    columns: [{ title: 'part' }, ...titles.map((title) => ({ title, align: 'right' as const }))],
    rows: (['before', 'during', 'after'] as const).map((name) => {
      const { transactions, failures, durationMs, p50Ms, p95Ms, p99Ms, maxMs } = run[name];
      return [
        name,
        formatCount(transactions),
        formatCount(Math.round((transactions * 1000) / Math.max(durationMs, 1))),
        formatCount(failures),
        ...[p50Ms, p95Ms, p99Ms, maxMs].map((value) => (value === null ? '-' : formatDuration(value))),
      ];
    }),
  };
}

function blockedTable({ blocked }: LoadSection): Block {
  return {
    kind: 'table',
    listed: LISTED,
    columns: [
      { title: 'waited for' },
      { title: 'sessions', align: 'right' },
      { title: 'longest', align: 'right' },
      { title: 'in all', align: 'right' },
      { title: 'behind' },
    ],
    rows: blocked.map(({ relation, statement, sql: text, sessions, longestMs, blockedMs }): Cell[] => [
      relation === null ? 'other locks' : [named(relation)],
      formatCount(sessions),
      formatDuration(longestMs),
      formatDuration(blockedMs),
      statement === null ? '-' : [`${formatCount(statement)}. `, ...(text === null ? [] : [sql(text)])],
    ]),
  };
}

function failureItem({ sqlstate, message, count }: LoadSection['failures'][number]): Item {
  const state = sqlstate === '' ? '' : ` (SQLSTATE ${sqlstate})`;
  return { mark: 'warning', text: `${formatCount(count)} × ${message}${state}` };
}

function deadlockItem({ victim, statement, sql: text, detail }: LoadSection['deadlocks'][number]): Item {
  const who = victim === 'command' ? 'the command' : 'a transaction of the load';
  const number = statement === null ? '' : `${formatCount(statement)}. `;
  return {
    mark: 'bad',
    tag: 'deadlock',
    text: `${who} was rolled back`,
    notes: [{ text: detail }, ...(text === null ? [] : [{ text: [number, sql(text)] }])],
  };
}

/** What the guardrails change; the other formats have it in a sentence. */
function guardedView(plain: LoadSection, guarded: NonNullable<LoadSection['guarded']>): Section {
  const { retries = [], cancelled = [] } = guarded.guardrails ?? {};
  return {
    id: 'guarded',
    title: 'With the guardrails of apply',
    shownIn: ['html'],
    folds: 'never',
    importance: 5,
    blocks: [
      {
        kind: 'table',
        columns: [{ title: '' }, { title: 'without', align: 'right' }, { title: 'with', align: 'right' }],
        rows: COMPARED.map(([name, read]) => [name, read(plain), read(guarded)]),
      },
      {
        kind: 'items',
        items: [
          ...retries.map(({ sql: text, failed, outcome }) => ({
            text: [sql(text), ` failed ${formatCount(failed)} × because of a lock, and ${outcome}`],
          })),
          ...cancelled.map(({ sql: text, waiting }) => ({
            text: [sql(text), ` was cancelled: ${formatCount(waiting)} sessions waited behind it`],
          })),
        ],
      },
    ],
    parts: [
      { id: 'guarded-time', title: 'Over time', folds: 'always', importance: 5, blocks: overTime(guarded) },
    ],
  };
}

const COMPARED: readonly [string, (run: LoadedRunSection) => string][] = [
  [
    'the command',
    ({ command }) => (command.exitCode === 0 ? 'succeeded' : `failed (${command.exitCode ?? 'not ended'})`),
  ],
  ['its time', ({ command }) => formatDuration(command.endedMs - command.startedMs)],
  ['time in which somebody waited', ({ someWaitedMs }) => formatDuration(someWaitedMs)],
  ['waiting in all', ({ blockedMs }) => formatDuration(blockedMs)],
  ['longest wait', ({ longestWaitMs }) => formatDuration(longestWaitMs)],
  ['sessions that waited at once', ({ mostWaiting }) => formatCount(mostWaiting)],
  ['failed transactions', ({ during, after }) => formatCount(during.failures + after.failures)],
  ['deadlocks', ({ deadlocks }) => formatCount(deadlocks.length)],
];
