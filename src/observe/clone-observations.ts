import { type EffectFacts, NO_EFFECTS } from '../model/effect-facts.ts';
import { type CatalogueFacts, NO_DEFINITIONS } from '../model/hazard-facts.ts';
import type { Caveat, DataSection, SchemaSection } from '../model/report.ts';
import type { Retyped } from '../schema/type-changes.ts';
import type { RelationTree } from './relation-names.ts';

/** State of the clone after the command, compared with the one before it. */
export interface CloneObservations {
  readonly schema: SchemaSection | null;
  readonly data: DataSection | null;
  readonly sizeBytes: number | null;
  /** The relations that were asked for, and all that there were before: dropped ones have their last name. */
  readonly tree: RelationTree;
  /** OIDs of those among them that the command made: no session waits for their locks. */
  readonly made: ReadonlySet<number>;
  readonly catalogue: CatalogueFacts;
  readonly retyped: readonly Retyped[];
  /** The CREATE PROCEDURE of those that the clone has after the command, if they were asked for. */
  readonly procedures: readonly string[];
  /** It had functions in a language other than C before the command, so that what a statement runs is not seen from it. */
  readonly hasUserCode: boolean;
  readonly caveats: Caveat[];
}

/** Observations of a run that was interrupted before anything was read. */
export const NOT_OBSERVED: CloneObservations = {
  schema: null,
  data: null,
  sizeBytes: null,
  tree: new Map(),
  made: new Set(),
  catalogue: {
    relations: new Map(),
    renamed: new Map(),
    checks: [],
    unindexedForeignKeys: new Map(),
    dropped: new Map(),
    definitions: NO_DEFINITIONS,
    effects: NO_EFFECTS,
    searchPath: ['public'],
    lockTimeoutByDefault: false,
    actsOnServer: [],
    leftPrepared: [],
    identityLost: [],
    orphans: [],
  },
  retyped: [],
  procedures: [],
  hasUserCode: true,
  caveats: ['schema', 'data', 'clone.sizeBytes'].map((path) => ({
    path,
    kind: 'unmeasured',
    reason: 'the run was interrupted before it was read',
  })),
};

/** Adds facts that were read later. */
export function withEffects(
  observed: CloneObservations,
  found: Partial<EffectFacts>,
  caveats: readonly Caveat[],
): CloneObservations {
  const { catalogue } = observed;
  return {
    ...observed,
    catalogue: { ...catalogue, effects: { ...catalogue.effects, ...found } },
    caveats: [...observed.caveats, ...caveats],
  };
}
