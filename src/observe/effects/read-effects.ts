import type { EffectFacts } from '../../model/hazard-facts.ts';
import type { SchemaSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { brokenFunctions } from './broken-functions.ts';
import { goneNames, hasGone } from './gone-names.ts';
import { grantsOf, missingGrants, newRelations } from './missing-grants.ts';
import { mayLackStatistics, unanalyzed } from './missing-statistics.ts';
import { publishedChanges, subscriberChanges } from './published-tables.ts';

/**
 * Reads from the clone what the command's changes mean for others, and asks only for what the changes suggest. What it writes, it
 * rolls back.
 */
export async function readEffects(session: Session, schema: SchemaSection): Promise<EffectFacts> {
  const statistics = mayLackStatistics(schema);
  const gone = goneNames(schema);
  const made = newRelations(schema);
  const sent = subscriberChanges(schema);
  return {
    unanalyzed: statistics === null ? [] : await unanalyzed(session, statistics),
    brokenFunctions: hasGone(gone) ? await brokenFunctions(session, gone) : [],
    missingGrants: made.length > 0 ? await missingGrants(session, made) : [],
    newRelations: made.length > 0 ? await grantsOf(session, made) : [],
    published: sent.length > 0 ? await publishedChanges(session, sent) : [],
  };
}
