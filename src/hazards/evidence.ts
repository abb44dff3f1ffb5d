import {
  formatBytes,
  formatCount,
  formatDuration,
  formatEstimate,
  formatInterval,
  listed,
  plural,
} from '../format.ts';
import type { ConvertedColumn, ProductionTime, StatementSection } from '../model/report.ts';
import type { HazardContext } from './hazard-context.ts';
import type { StatementLock } from './held-locks.ts';
import { waitingFor } from './severity.ts';

/** `ACCESS EXCLUSIVE on public.orders for 4.2 s (18 GB, rewritten)`, or the statement's time if no lock was seen. */
export function lockEvidence(context: HazardContext, statement: StatementSection, relation: string): string {
  const held = context.held(statement, relation);
  const about = details(context, relation, statement.rewrote.includes(relation), held);
  if (!held) return `the statement took ${statementTime(statement)} on ${relation}${about}`;
  return `${held.mode} on ${relation}${duration(held)}${about}`;
}

export function locksEvidence(context: HazardContext, locks: readonly StatementLock[]): string {
  const words = locks.map(
    (lock) =>
      `${lock.mode} on ${lock.relation}${duration(lock)}${details(context, lock.relation, false, lock)}`,
  );
  return listed(words, { separator: '; ' });
}

/** `public.orders: 18 GB, about 1,200,000 rows, 12 reads and 3 writes per second`. */
export function relationEvidence(context: HazardContext, relation: string): string {
  const known = figures(context, relation);
  return known.length === 0 ? relation : `${relation}: ${known.join(', ')}`;
}

/** `4.2 s`, or `≈ 40–70 s at production's size`. */
export function statementTime({
  durationMs,
  atProductionSize,
}: Pick<StatementSection, 'durationMs' | 'atProductionSize'>): string {
  return timeWords(durationMs, atProductionSize);
}

/** The same for a lock; `timeMs` is what is judged. */
export function timeWords(timeMs: number, atProductionSize: ProductionTime | undefined): string {
  return atProductionSize
    ? `${formatInterval(atProductionSize)} at production's size`
    : formatDuration(timeMs);
}

function duration({ heldMs, atProductionSize }: Pick<StatementLock, 'heldMs' | 'atProductionSize'>): string {
  return heldMs === null ? '' : ` for ${timeWords(heldMs, atProductionSize)}`;
}

function details(
  context: HazardContext,
  relation: string,
  rewritten: boolean,
  lock: StatementLock | undefined,
): string {
  const size = context.relation(relation)?.sizeBytes ?? null;
  const waiting = lock ? waitingFor(context, lock) : null;
  const words = [
    ...(size === null ? [] : [formatBytes(size)]),
    ...(rewritten ? ['rewritten'] : []),
    ...(waiting === null || waiting < 1 ? [] : [`about ${plural(waiting, 'statement')} would wait`]),
  ];
  return words.length === 0 ? '' : ` (${words.join(', ')})`;
}

/** Reads and writes per second. Tools that look at a table cause fewer. */
const LEAST_RATE = 0.01;

function figures(context: HazardContext, relation: string): string[] {
  const facts = context.relation(relation);
  const traffic = context.traffic(relation);
  return [
    ...(facts?.unfilled ? ['not known, no rows here'] : []),
    ...(facts?.sizeBytes == null || facts.unfilled ? [] : [formatBytes(facts.sizeBytes)]),
    ...(facts?.rows == null ? [] : [rowCount(facts.rows, facts.exact)]),
    ...(traffic === null || traffic.readsPerSecond + traffic.writesPerSecond < LEAST_RATE
      ? []
      : [`${rate(traffic.readsPerSecond)} reads and ${rate(traffic.writesPerSecond)} writes per second`]),
  ];
}

/** `500 of 500 values become NULL`, `12 different values become 3`; nothing if none is known to be another one. */
export function conversionCounts(column: ConvertedColumn): string[] {
  const { values, becameNull, cut = 0, keysLost = 0, changed, triggers = [] } = column;
  const { distinctBefore, distinctAfter, spellings } = column;
  const of = `of ${plural(values, 'value')}`;
  const by = triggers.length === 0 ? '' : ` by the trigger ${listed(triggers)}`;
  return [
    ...(becameNull > 0 ? [`${formatCount(becameNull)} ${of} become NULL`] : []),
    ...(cut > 0 ? [`${formatCount(cut)} ${of} are cut to the length of the new type`] : []),
    ...(keysLost > 0 ? [`${formatCount(keysLost)} ${of} have none of their keys left`] : []),
    ...(changed && changed !== cut ? [`${formatCount(changed)} ${of} change${by}`] : []),
    ...(distinctAfter < distinctBefore && becameNull < values
      ? [`${plural(distinctBefore, 'different value')} become ${formatCount(distinctAfter)}`]
      : []),
    ...(spellings !== undefined ? [`${formatCount(spellings)} of them differ in more than spelling`] : []),
  ];
}

export function rowCount(rows: number, exact: boolean): string {
  return `${formatEstimate(rows, exact)} ${rows === 1 ? 'row' : 'rows'}`;
}

function rate(perSecond: number): string {
  if (perSecond > 0 && perSecond < LEAST_RATE) return `less than ${LEAST_RATE}`;
  return perSecond === 0 || perSecond >= 10 ? formatCount(Math.round(perSecond)) : perSecond.toPrecision(2);
}

const TRIED = '; tried: ';

/** Adds to an evidence what a trial of running code showed. */
export function withTrial(evidence: string, result: string): string {
  return `${evidence}${TRIED}${result}`;
}

/** The evidence without what a trial showed, which confirms the message. */
export function withoutTrial(evidence: string): string {
  return evidence.split(TRIED)[0] ?? evidence;
}
