import { formatCount, formatDuration, plural } from '../../format.ts';
import type { LoadedRunSection, LoadSection, Report } from '../../model/report.ts';
import { loadFigure } from '../html/timeline-html.ts';
import { lockWaitWords } from '../phrases.ts';
import { type Block, type Cell, drawing, type Item, named, type Section, sql } from '../view/section.ts';

const LISTED = 5;
/** Waits are looked at every 50 ms. */
const AT_ONCE_MS = 60;

/** Throughput, latency and waits of the target's traffic on a second clone. */
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
        { kind: 'items', items: load.failures.map(failureItem), listed: LISTED },
        { kind: 'items', items: load.deadlocks.map(deadlockItem), listed: LISTED },
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

/** The difference that the guardrails make; the other formats have it in a sentence. */
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

/** The waits that the users of the target would have felt; reports begin with it. */
export function loadHeadline(load: LoadSection): string {
  return `${waitingWords(load)}${load.command.exitCode === 0 ? '' : `; ${endWords(load)}`}`;
}

/** Sentences beside the headline. */
export function loadDetails(load: LoadSection): string[] {
  const { recoveryMs, pool } = load;
  const recovered =
    recoveryMs === null
      ? 'sessions still waited when the load was stopped'
      : `afterwards it recovered ${recoveryMs < AT_ONCE_MS ? 'at once' : `in ${formatDuration(recoveryMs)}`}`;
  const failed = failedWords(load);
  return [
    ...rateWords(load),
    ...(failed.length > 0 ? [failed.join(', ')] : []),
    ...lockWaitWords(load.lockWaits, "the clone's server"),
    `${recovered}; ${connectionWords(load)}`,
    ...(pool && isFull(pool)
      ? [
          `a full pool: if a connection is opened for each request that is held back, the target needs ${formatCount(pool.needed)}, and has ${formatCount(pool.limit)} (${formatCount(pool.open)} are open)`,
        ]
      : []),
    ...(load.guarded ? [`with the guardrails of an apply: ${guardedWords(load.guarded)}`] : []),
  ];
}

function rateWords({ rate: { wanted, played } }: LoadSection): string[] {
  if (wanted === null || played === null) return [];
  const [had, should] = [played, wanted].map((each) => formatCount(Math.round(each)));
  return [`${had} of ${should} transactions a second were played`];
}

function waitingWords({
  mostWaiting,
  someWaitedMs,
  longestWaitMs,
  blockedMs,
  blocked,
}: LoadedRunSection): string {
  if (mostWaiting === 0) return 'no session waited behind the command';
  const [worst] = blocked;
  const behind = worst?.statement ? `statement ${formatCount(worst.statement)}` : 'the command';
  return (
    `for ${formatDuration(someWaitedMs)} up to ${plural(mostWaiting, 'session')} waited behind ${behind}, ` +
    `the longest for ${formatDuration(longestWaitMs)}, ${formatDuration(blockedMs)} in all`
  );
}

/** How a command that failed came to its end. */
function endWords({ command, deadlocks }: LoadedRunSection): string {
  return deadlocks.some(({ victim }) => victim === 'command')
    ? 'the command was cancelled by a deadlock'
    : `the command failed (exit code ${command.exitCode ?? 'none'})`;
}

function failedWords({ during, after, deadlocks }: LoadedRunSection): string[] {
  const failed = during.failures + after.failures;
  return [
    ...(failed > 0 ? [`${plural(failed, 'transaction')} of the load failed`] : []),
    // One that cancelled the command has been said.
    ...(deadlocks.some(({ victim }) => victim === 'load')
      ? [`${plural(deadlocks.length, 'deadlock')} with the command`]
      : []),
  ];
}

function connectionWords({ connections, mostWaiting, clients, source }: LoadSection): string {
  const used = `at most ${formatCount(connections.most)} of ${plural(connections.limit, 'connection')} were in use`;
  return source !== 'command' && mostWaiting >= clients
    ? `${used}, and all ${formatCount(clients)} sessions of the load waited at once`
    : used;
}

function guardedWords(run: NonNullable<LoadSection['guarded']>): string {
  const retries = run.guardrails?.retries.reduce((sum, { failed }) => sum + failed, 0) ?? 0;
  const cancelled = run.guardrails?.cancelled.length ?? 0;
  return [
    run.command.exitCode === 0 ? 'the command succeeded' : endWords(run),
    waitingWords(run),
    ...failedWords(run),
    ...(retries > 0 ? [`${plural(retries, 'retry', 'retries')} of a statement`] : []),
    ...(cancelled > 0 ? [`${plural(cancelled, 'statement')} cancelled for blocking others`] : []),
  ].join('; ');
}

function isFull({ needed, open, limit }: NonNullable<LoadSection['pool']>): boolean {
  return open < limit && needed >= limit;
}
