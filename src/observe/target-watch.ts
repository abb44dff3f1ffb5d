import type { SchemaChange, TargetSection } from '../report/model.ts';
import { type CatalogueDigest, catalogueDigest, compareDigests } from '../schema/digest.ts';
import { compareShared, type SharedCatalogues, sharedCatalogues } from '../schema/shared.ts';
import { openSession } from '../target/connect.ts';
import type { Audit } from '../target/session.ts';
import type { Target } from '../target/target.ts';
import type { RunId } from '../upkeep/run-id.ts';

/** Everything about the target that a rehearsal must not change, at one moment. */
export interface TargetState {
  readonly digest: CatalogueDigest;
  readonly shared: SharedCatalogues;
  /** Sessions established to the target since its statistics began, the one that read this included. */
  readonly arrivals: number;
}

const ARRIVALS = 'SELECT coalesce(sum(sessions), 0)::int8 AS arrivals FROM pg_stat_database WHERE datid = $1';

/** Reads the state over a connection of its own, which is closed again: it would be in the way of the clone. */
export async function readTargetState(
  target: Target,
  options: { run: RunId; audit?: Audit; signal?: AbortSignal },
): Promise<TargetState> {
  const session = await openSession(target.settings, { ...options, purpose: 'watch', readOnly: true });
  try {
    const digest = await catalogueDigest(session);
    const shared = await sharedCatalogues(session, target.database.oid);
    const [row] = await session.query<{ arrivals: string }>(ARRIVALS, [target.database.oid]);
    return { digest, shared, arrivals: Number(row?.arrivals ?? 0) };
  } finally {
    await session.close();
  }
}

/** What speaks for and against the command having made a change of the target. */
export interface Evidence {
  readonly before: TargetState;
  readonly after: TargetState;
  readonly reachedClone: boolean;
  /** What the command changed on the clone. */
  readonly cloneChanges: readonly SchemaChange[];
  /** What the target has different from the clone before the command. */
  readonly targetChanges: readonly SchemaChange[];
}

/** The session that reads the state counts as one. */
const OWN_ARRIVALS = 1;

/**
 * Says of each difference who made it. Sessions that were there before the command cannot be its own; a change that
 * the command made on the clone too, or that came while it never reached the clone, is put down to it. What holds for
 * the whole cluster (roles, settings, ownership) can be changed from the clone as well: it is put down to the command,
 * since a person must look where nothing shows that somebody else did it.
 */
export function attribute(evidence: Evidence): TargetSection['changes'] {
  const { before, after } = evidence;
  const catalogues = compareDigests(before.digest, after.digest);
  const shared = compareShared(before.shared, after.shared);
  const { madeBy, why } = decide(evidence);
  return [
    ...describe(catalogues, evidence.targetChanges).map((what) => ({ what, madeBy, evidence: why })),
    ...shared.map((what) => ({
      what,
      madeBy: 'command' as const,
      evidence: 'it can be changed from the clone, and changed while the command ran',
    })),
  ];
}

function describe(catalogues: string[], changes: readonly SchemaChange[]): string[] {
  if (catalogues.length === 0) return [];
  if (changes.length > 0) return changes.map(({ verb, kind, object }) => `${verb} ${kind} ${object}`);
  // A new file for a relation (TRUNCATE, REINDEX, VACUUM FULL) leaves the schema as it was.
  return [`rows of ${catalogues.join(', ')} were written, and the schema is the same`];
}

function decide({ before, after, reachedClone, cloneChanges, targetChanges }: Evidence): {
  madeBy: 'command' | 'others';
  why: string;
} {
  const arrivals = after.arrivals - before.arrivals - OWN_ARRIVALS;
  if (arrivals <= 0)
    return { madeBy: 'others', why: 'no session connected to the target while the command ran' };
  const same = targetChanges.some((change) =>
    cloneChanges.some(({ kind, object }) => kind === change.kind && object === change.object),
  );
  if (same) return { madeBy: 'command', why: 'the command makes the same change on the clone' };
  if (!reachedClone)
    return {
      madeBy: 'command',
      why: 'the command never connected to the clone, and somebody did to the target',
    };
  return { madeBy: 'others', why: 'the command worked on the clone, and makes no such change there' };
}
