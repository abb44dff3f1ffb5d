import { type EffectFacts, NO_EFFECTS } from '../../model/hazard-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { brokenFunctions } from './broken-functions.ts';
import { goneNames, hasGone } from './gone-names.ts';
import { mayLackStatistics, unanalyzed } from './missing-statistics.ts';

/** Opens a session in the clone that may write: what it writes is rolled back. */
type InClone = <T>(read: (session: Session) => Promise<T>) => Promise<T>;

/**
 * Reads from the clone what the command's changes mean for others. What the changes do not suggest is not asked for, so that most
 * commands need no session at all.
 */
export async function readEffects(schema: SchemaSection, inClone: InClone): Promise<EffectFacts> {
  const statistics = mayLackStatistics(schema);
  const gone = goneNames(schema);
  if (statistics === null && !hasGone(gone)) return NO_EFFECTS;
  return inClone(async (session) => ({
    unanalyzed: statistics === null ? [] : await unanalyzed(session, statistics),
    brokenFunctions: hasGone(gone) ? await brokenFunctions(session, gone) : [],
  }));
}
