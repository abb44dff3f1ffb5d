import { formatBytes, formatCount, formatDuration, plural } from '../../format.ts';
import type { ProposalMeasures, ProposalSection, Report } from '../../model/report.ts';
import { type Html, html } from '../html/escape-html.ts';
import { lanesOnAxis } from '../html/timeline-html.ts';
import { drawing, type Section, sentences } from '../view/section.ts';

type CommandRun = Pick<Report, 'statements' | 'transactions'>;

/** The outcome of `--propose`: in sentences, in figures, and as the two runs on one axis of time. */
export function proposalView(report: Report): Section[] {
  const { proposal } = report;
  if (!proposal) return [];
  const figures = proposalFigures(proposal);
  return [
    {
      id: 'proposal',
      title: 'Safer form',
      summary: proposal.outcome === 'proved' ? 'proved' : 'none',
      folds: 'never',
      importance: 8,
      blocks: [
        sentences(proposalWords(proposal), { listed: Number.POSITIVE_INFINITY }),
        {
          kind: 'table',
          columns: [{ title: '' }, { title: 'original', align: 'right' }, { title: 'safer', align: 'right' }],
          rows: figures,
        },
        ...(figures.length === 0 ? [] : [drawing(() => runsOnOneAxis(report, proposal))]),
      ],
    },
  ];
}

function runsOnOneAxis(original: CommandRun, safer: CommandRun): Html {
  const totalMs = Math.max(1, ...[original, safer].map((run) => spanOf(run).totalMs));
  return html`<p class="dim">Both on one axis of ${formatDuration(totalMs)}.</p>
${figureOf('As it is', original, totalMs)}${figureOf('Safer form', safer, totalMs)}`;
}

/** Tells what came of `--propose`, a sentence each. */
export function proposalWords(proposal: ProposalSection): string[] {
  const { outcome, file, reasons, changes, left, tolerated, tablesCompared, tablesSkipped } = proposal;
  const skipped = tablesSkipped > 0 ? ` (${plural(tablesSkipped, 'table')} too large to compare)` : '';
  const outcomes: Record<ProposalSection['outcome'], string[]> = {
    proved: [
      `${file} left the same schema and the same rows on a second clone: ${plural(tablesCompared, 'table')} compared${skipped}`,
    ],
    refused: reasons.map((reason) => `no safer form is proposed: ${reason}`),
    none: [
      proposal.safer === null
        ? 'no hazard that was found can be taken away by a script'
        : 'no safer form is proposed: the one that was tried is not better',
    ],
  };
  const changed = changes.map(
    ({ statement, codes, words }) => `${placeOf(statement)}${words} (${codes.join(', ')})`,
  );
  return [
    ...outcomes[outcome],
    ...(outcome === 'proved' ? [...costWords(proposal), ...changed] : []),
    ...left.map(
      ({ statement, codes, words }) => `${placeOf(statement)}left as it was (${codes.join(', ')}): ${words}`,
    ),
    ...tolerated.map((what) => `not compared, since any two runs differ: ${what}`),
  ];
}

const placeOf = (statement: number | null) => (statement === null ? '' : `statement ${statement}: `);

/** Gives what the safer form takes in place of the original, in one line; of times that something is blocked the longest. */
function costWords({ original, safer }: ProposalSection): string[] {
  if (!safer) return [];
  const instead = (words: string, was: number | null, is: number | null) =>
    was === null || is === null ? [] : [`${words} ${formatDuration(is)} instead of ${formatDuration(was)}`];
  const factor = original.walBytes && safer.walBytes ? safer.walBytes / original.walBytes : null;
  const words = [
    ...instead('reads are blocked for', original.readsBlockedMs, safer.readsBlockedMs),
    ...instead('writes are blocked for', original.writesBlockedMs, safer.writesBlockedMs),
    ...instead('it takes', original.durationMs, safer.durationMs),
    ...(factor === null ? [] : [`${factor.toFixed(1)} times the WAL`]),
  ];
  return [words.join(', ')];
}

/** Lists the costs of both forms: the measure, its value of the original, and of the safer form. */
export function proposalFigures({ original, safer }: ProposalSection): [string, string, string][] {
  if (!safer) return [];
  const row = (
    name: string,
    read: (measures: ProposalMeasures) => number | null | undefined,
    write: (value: number) => string = formatDuration,
  ): [string, string, string][] => {
    const [was, is] = [read(original), read(safer)].map((value) => (value == null ? null : write(value)));
    return was == null && is == null ? [] : [[name, was ?? '-', is ?? '-']];
  };
  return [
    ...row('reads blocked, at most', ({ readsBlockedMs }) => readsBlockedMs),
    ...row('writes blocked, at most', ({ writesBlockedMs }) => writesBlockedMs),
    ...row('under load, somebody waited', ({ load }) => load?.someWaitedMs),
    ...row('under load, longest wait', ({ load }) => load?.longestWaitMs),
    ...row('under load, failed', ({ load }) => load?.failures, formatCount),
    ...row('total time', ({ durationMs }) => durationMs),
    ...row('WAL', ({ walBytes }) => walBytes, formatBytes),
    ...row('disk at the peak', ({ diskBytes }) => diskBytes, formatBytes),
  ];
}

function figureOf(name: string, run: CommandRun, totalMs: number): Html {
  const percent = (ms: number) => `${((ms / totalMs) * 100).toFixed(3)}%`;
  const { names, svg } = lanesOnAxis(run, spanOf(run).startMs, percent);
  return html`<h3>${name}</h3><figure class="timeline"><div class="names">${names}</div><div class="scroll">${svg}</div></figure>`;
}

function spanOf({ statements }: CommandRun): { startMs: number; totalMs: number } {
  if (statements.length === 0) return { startMs: 0, totalMs: 0 };
  const starts = statements.map(({ startedAt }) => Date.parse(startedAt));
  const startMs = starts.reduce((one, other) => Math.min(one, other));
  const endMs = statements.reduce(
    (latest, { durationMs }, index) => Math.max(latest, (starts[index] ?? 0) + durationMs),
    startMs,
  );
  return { startMs, totalMs: endMs - startMs };
}
