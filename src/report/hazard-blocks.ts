import { formatDuration } from '../format.ts';
import { timeWords } from '../hazards/evidence.ts';
import { longestLocks } from '../hazards/held-locks.ts';
import type { Hazard, Report } from '../model/report.ts';

export const SEVERITIES: readonly Hazard['severity'][] = ['error', 'warning', 'notice'];

/** Findings of one transaction that are worth a title. */
const TOGETHER = 3;

/** A hazard, and the same one in other places. */
export type HazardGroup = [Hazard, ...Hazard[]];

export interface HazardBlock {
  /** What the findings of one transaction have in common; null for others. */
  readonly title: string | null;
  readonly groups: readonly HazardGroup[];
}

/** For sorting by severity, with hazards that the policy allows at the end. */
export function rankOf({ severity, allowed }: Hazard): number {
  return SEVERITIES.indexOf(severity) + (allowed ? SEVERITIES.length : 0);
}

/** The hazards one by one, by severity and transaction; within one transaction, evidence is given once. */
export function hazardsInOrder(report: Report): { title: string | null; hazards: Hazard[] }[] {
  const sorted = report.hazards.toSorted((one, other) => rankOf(one) - rankOf(other));
  const alone = sorted.map((hazard): HazardGroup => [hazard]);
  return hazardBlocks(alone, report).map(({ title, groups }) => {
    const said = new Set<string>();
    const hazards = groups.flat().map((hazard) => {
      const isNew = !said.has(hazard.evidence);
      said.add(hazard.evidence);
      return isNew ? hazard : { ...hazard, evidence: '' };
    });
    return { title, hazards };
  });
}

/** Puts the findings of one transaction together, at the place of the worst of them. */
export function hazardBlocks(groups: readonly HazardGroup[], report: Report): HazardBlock[] {
  const transactions = new Map(report.statements.map(({ index, transaction }) => [index, transaction]));
  const blocks = new Map<string, { transaction: number | undefined; groups: HazardGroup[] }>();
  for (const [place, group] of groups.entries()) {
    const [{ statement, allowed }, ...others] = group;
    const transaction = others.length > 0 || statement === null ? undefined : transactions.get(statement);
    const key = transaction === undefined ? `alone ${place}` : `${transaction} ${allowed}`;
    const block = blocks.get(key);
    if (block) block.groups.push(group);
    else blocks.set(key, { transaction, groups: [group] });
  }
  return [...blocks.values()].map(({ transaction, groups }) => ({
    title:
      transaction === undefined || groups.length < TOGETHER ? null : transactionTitle(transaction, report),
    groups,
  }));
}

/** `In one transaction of 6.6 s, ACCESS EXCLUSIVE on public.orders for 6.5 s:`. */
function transactionTitle(transaction: number, report: Report): string {
  const section = report.transactions.find((each) => each.transaction === transaction);
  const took = section?.endedAt
    ? ` of ${formatDuration(Date.parse(section.endedAt) - Date.parse(section.startedAt))}`
    : '';
  const statements = report.statements.filter((statement) => statement.transaction === transaction);
  const [lock] = longestLocks(statements, report.schema);
  const held = lock ? `, ${lock.mode} on ${lock.relation}` : '';
  const during = lock && lock.heldMs !== null ? ` for ${timeWords(lock.heldMs, lock.atProductionSize)}` : '';
  return `In one transaction${took}${held}${during}:`;
}
