import type { Clone } from '../../clone/method.ts';
import { inClone } from '../../clone/own-sessions.ts';
import { dropOwnedPublications } from '../../ownership/owned-replication.ts';
import type { Session } from '../../postgres/connection/session.ts';
import {
  type CatalogueDigest,
  catalogueDigest,
  compareDigests,
  prepareDigest,
} from '../../proof/catalogue-digest.ts';
import type { RehearsalContext } from '../../rehearsal/prepare.ts';
import type { Scope } from '../../scope.ts';
import { type ClusterProperties, readClusterProperties } from '../database-state.ts';
import type { MaintenanceWindow } from '../maintenance-window.ts';
import type { SwapSubject } from '../rename.ts';
import { cloneTarget, requireSame } from '../successor.ts';
import { swapFailure } from '../swap-section.ts';
import type { CloneLag } from './clone-lag.ts';
import { readWriteCounters, type WriteCounters, writtenUnfollowed } from './counters.ts';
import type { OnlinePlan } from './online-plan.ts';
import { type CloneBirth, readCloneBirth } from './plan-online-swap.ts';
import { openInTarget } from './source.ts';

/** The moment at which the clone was made: what happened in the target before it, the clone has; the rest is sent to it. */
export interface Fork {
  readonly clone: Clone;
  /** The position in the WAL: no transaction of the target was running. */
  readonly lsn: string;
  readonly digest: CatalogueDigest;
  /** Reads the digest of the target at this moment, over `inside`. */
  readonly readDigest: () => Promise<CatalogueDigest>;
  readonly properties: ClusterProperties;
  /** Catalogues of both databases before the command. */
  readonly birth: CloneBirth;
  readonly counters: WriteCounters;
  /** A session of ours in the target, which may stay there until the target is closed for good. */
  readonly inside: Session;
}

/** Reads the position in the WAL before which all commits so far are. */
export async function readInsertLsn(session: Session): Promise<string> {
  const [row] = await session.query<{ lsn: string }>('SELECT pg_current_wal_insert_lsn()::text AS lsn');
  if (!row) throw new Error('no position in the WAL');
  return row.lsn;
}

/**
 * Closes the target, clones it, and opens it again. In between no session and no transaction of it is left, so each of its commits
 * comes before the position in the WAL that is read there, or after it.
 * @param before the counters of the target, read while it was open: those of tables that are not replicated must not move from then on.
 */
export async function forkTarget(
  prepared: RehearsalContext,
  {
    subject,
    scope,
    window,
    lag,
  }: { subject: SwapSubject; scope: Scope; window: MaintenanceWindow; lag: CloneLag },
  plan: OnlinePlan,
  before: WriteCounters,
): Promise<Fork> {
  const { control, target } = subject;
  await window.holdClients();
  await window.close('clone');
  const properties = await readClusterProperties(control, target.database.oid);
  const lsn = await readInsertLsn(control);
  const clone = await window.step('clone', () => cloneTarget(prepared, scope));
  // The copy may have written WAL, which the clone does not lack.
  lag.begin(await readInsertLsn(control));
  await window.reopen();
  requireSame(properties, await readClusterProperties(control, clone.oid), clone);
  const inside = await scope.own(
    'session in the target',
    () => openInTarget(subject, 'online'),
    async (session) => session?.close(),
  );
  // The rows of the clone's catalogues are copies, transaction ids included.
  const reads = { clone, context: prepared.context };
  const digest = await inClone(reads, catalogueDigest);
  const readDigest = await prepareDigest(inside);
  await requireUnchanged({ digest, readDigest, counters: before, inside }, plan);
  await inClone(reads, (session) => dropOwnedPublications(session, subject.run), { readOnly: false });
  const birth = await inClone(reads, (session) => readCloneBirth(inside, session));
  return { clone, lsn, digest, readDigest, properties, birth, counters: before, inside };
}

/**
 * Checks that nothing happened in the target since the fork that is not replicated: changes of its catalogues, writes to tables that
 * the clone does not follow.
 * @throws SafemigrateError `REFUSED`
 */
export async function requireUnchanged(
  {
    digest,
    readDigest,
    counters,
    inside,
  }: Pick<Fork, 'digest' | 'readDigest' | 'inside'> & { readonly counters: WriteCounters | null },
  plan: OnlinePlan,
): Promise<void> {
  const changed = compareDigests(digest, await readDigest());
  if (changed.length > 0)
    throw swapFailure(
      `the target's catalogues were written while production went on (rows of ${changed.join(', ')}), which is not replicated: DDL, TRUNCATE or REFRESH; try again without them`,
    );
  if (!counters) return;
  const written = writtenUnfollowed(counters, await readWriteCounters(inside), plan);
  if (written.length > 0)
    throw swapFailure(
      `production wrote to ${written.map(({ name }) => name).join(', ')}, which is not replicated; try again without such writes, or swap without --online`,
    );
}
