import { formatBytes, formatCount, formatDuration, plural } from '../format.ts';
import type { ProposalMeasures, ProposalSection, Report } from '../model/report.ts';
import { isScripted } from '../propose/scripted-hazards.ts';

/** What came of --propose, a sentence each. */
export function proposalWords(proposal: ProposalSection): string[] {
  const { outcome, file, reasons, changes, left, tolerated, tablesCompared, tablesSkipped } = proposal;
  const skipped = tablesSkipped > 0 ? ` (${plural(tablesSkipped, 'table')} too large to compare)` : '';
  const outcomes: Record<ProposalSection['outcome'], string[]> = {
    proved: [
      `${file} left the same schema and the same rows on a second clone: ${plural(tablesCompared, 'table')} compared${skipped}`,
    ],
    refused: reasons.map((reason) => `no safer form is proposed: ${reason}`),
    none: ['no hazard that was found can be taken away by a script'],
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

/** What the safer form takes in place of the original, in one line; of times that something is blocked the longest. */
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

/** What both forms cost: what is measured, of the original, of the safer form. */
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

/** That a safer form may be had, in a rehearsal that was not asked for one; null if there is nothing to say. */
export function saferFormHint({ proposal, run, command, hazards }: Report): string | null {
  const findings = hazards.filter(({ severity, allowed }) => severity !== 'notice' && !allowed);
  const codes = [...new Set(findings.map(({ code }) => code))].filter((code) => isScripted(code, true));
  if (proposal || run.mode !== 'rehearse' || command.exitCode !== 0 || codes.length === 0) return null;
  const asked = codes.filter((code) => !isScripted(code)).join(', ');
  const others = codes.filter((code) => isScripted(code)).join(', ');
  const written = 'writes it, if a second clone proves it';
  if (others === '')
    return `Some of this has a safer form (${asked}): --propose out.sql --propose-all ${written}`;
  const more = asked === '' ? '' : `; with --propose-all that of ${asked}, too`;
  return `Some of this has a safer form (${others}): --propose out.sql ${written}${more}`;
}
