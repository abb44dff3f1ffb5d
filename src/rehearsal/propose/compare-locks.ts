import { formatDuration } from '../../format.ts';
import { REPORTED_FROM_MS, WARNING } from '../../hazards/thresholds.ts';
import type { StatementSection } from '../../model/report.ts';
import { type ScriptPart, statementsOfScript } from '../../propose/write-script.ts';

// Whether a safer form blocks others for a shorter time than the original.

const WORK = ['reads', 'writes'] as const;

/** Longest time that reads and that writes of a table were blocked, in ms. */
export type BlockedMs = Readonly<Record<(typeof WORK)[number], number>>;

export function longestBlocked(statements: readonly Pick<StatementSection, 'locks'>[]): BlockedMs {
  const longest = (work: keyof BlockedMs) =>
    statements
      .flatMap(({ locks }) => locks ?? [])
      .filter(({ blocks }) => blocks.includes(work))
      .reduce((most, { heldMs }) => Math.max(most, heldMs ?? 0), 0);
  return { reads: longest('reads'), writes: longest('writes') };
}

/**
 * Says how long a form blocks others if that is not shorter: of reads, or if those are not blocked for a time that counts, of writes. A busy
 * machine explains up to a second of a lock that was short before.
 */
export function noBetterWords(was: BlockedMs, is: BlockedMs): string | null {
  const work = WORK.find((each) => was[each] >= REPORTED_FROM_MS || is[each] >= WARNING.heldMs);
  if (work === undefined || is[work] < was[work]) return null;
  return `it was tried, and is not better: ${work} were blocked for ${formatDuration(is[work])} instead of ${formatDuration(was[work])}`;
}

/**
 * Finds the statements whose form blocks others for as long as their transaction did, with the words for it. Statements that are as they
 * were do not count, whose times differ from run to run.
 */
export function formsNoBetter(
  original: readonly StatementSection[],
  parts: readonly ScriptPart[],
  sent: readonly StatementSection[],
): Map<number, string> {
  const own = sent.filter(({ note }) => note !== 'implicit end');
  const found = new Map<number, string>();
  // What the session sent before the script is none of it.
  let next = own.length - statementsOfScript(parts).length;
  if (next < 0) return found;
  for (const part of parts) {
    const from = next;
    next += statementsOfScript([part]).length;
    const replaced = original.find(({ index }) => index === part.instead);
    if (replaced === undefined) continue;
    const unit = original.filter(({ transaction }) => transaction === replaced.transaction);
    const words = noBetterWords(longestBlocked(unit), longestBlocked(own.slice(from, next)));
    if (words !== null) found.set(replaced.index, words);
  }
  return found;
}
