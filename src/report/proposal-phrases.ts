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
    ...(outcome === 'proved' ? changed : []),
    ...left.map(
      ({ statement, codes, words }) => `${placeOf(statement)}left as it was (${codes.join(', ')}): ${words}`,
    ),
    ...tolerated.map((what) => `not compared, since any two runs differ: ${what}`),
  ];
}

const placeOf = (statement: number | null) => (statement === null ? '' : `statement ${statement}: `);

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
  const findings = hazards.filter(
    ({ code, severity, allowed }) => isScripted(code) && severity !== 'notice' && !allowed,
  );
  if (proposal || run.mode !== 'rehearse' || command.exitCode !== 0 || findings.length === 0) return null;
  const codes = [...new Set(findings.map(({ code }) => code))];
  return `Some of this has a safer form (${codes.join(', ')}): --propose out.sql writes it, if a second clone proves it`;
}
