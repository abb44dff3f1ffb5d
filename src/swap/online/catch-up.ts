import { inPhase } from '../../events.ts';
import { formatDuration } from '../../format.ts';
import type { OnlineSection } from '../../model/report.ts';
import type { Session } from '../../postgres/connection/session.ts';
import { swapFailure } from '../swap-section.ts';
import { runUntilShort } from './catch-up-script.ts';
import { compareRows } from './compare-rows.ts';
import { type OnlineRun, requireNoOrphans } from './cut-over.ts';
import { drain } from './follower.ts';
import { requireUnchanged } from './fork.ts';
import type { OnlinePlan } from './online-plan.ts';

/** The catch-up takes as long as it needs: it ends early by the limit of kept WAL, or by an error of the worker. */
const NO_LIMIT_MS = Number.POSITIVE_INFINITY;
/** While rows are compared: a row that differs after that is one that could not be settled. */
const APPLIED_WITHIN_MS = 5_000;

/**
 * Waits until the follower has applied all writes so far, and proves that it has the same rows, while both are written.
 * @throws SafemigrateError `REFUSED`, naming the rows that differ.
 */
export async function catchUp(
  run: Omit<OnlineRun, 'window' | 'beforeSealing'>,
): Promise<Pick<OnlineSection, 'catchUpMs' | 'rowsCompared' | 'rowsUnsettled' | 'compareMs'>> {
  const { subject, fork, follower, plan } = run;
  const { control, signal, emit } = subject;
  let most = 0;
  const onBehind = (bytes: number) => {
    most = Math.max(most, bytes);
    const done = Math.round(most - Math.max(0, bytes));
    emit({ type: 'progress', phase: 'catch-up', done, of: Math.round(most), unit: 'bytes' });
  };
  const catchUpMs = await inPhase(emit, 'catch-up', () =>
    drain(control, follower, { timeoutMs: NO_LIMIT_MS, signal, onBehind }),
  );
  for (const table of await rewritten(fork.inside, follower.inside, plan))
    await follower.inside.query(`ANALYZE ${table}`);
  await runUntilShort(follower.inside, run.script, run.maxCutOverMs);
  await refreshViews(run);
  await requireUnchanged(fork, plan);
  await requireShortChecks(run);
  const startedAt = performance.now();
  const isApplied = async () =>
    (await drain(control, follower, { timeoutMs: APPLIED_WITHIN_MS, signal })) !== undefined;
  const estimated = await estimatedRows(fork.inside, plan);
  let done = 0;
  const onRows = (rows: number) => {
    done += rows;
    emit({ type: 'progress', phase: 'compare', done, of: Math.max(done, estimated), unit: 'rows' });
  };
  const compared = await inPhase(emit, 'compare', () =>
    compareRows(fork.inside, follower.inside, plan, { signal, isApplied, onRows, called: follower.called }),
  );
  if (compared.differences.length > 0)
    throw swapFailure(`the ${follower.called} differs from the target: ${compared.differences.join('; ')}`);
  return {
    catchUpMs: catchUpMs ?? 0,
    rowsCompared: compared.rows,
    rowsUnsettled: compared.unsettled,
    compareMs: performance.now() - startedAt,
  };
}

/** Refreshes the materialized views, which are not replicated. */
export async function refreshViews({ follower, plan }: Pick<OnlineRun, 'follower' | 'plan'>): Promise<void> {
  for (const view of plan.refresh) await follower.inside.query(`REFRESH MATERIALIZED VIEW ${view}`);
}

/**
 * Checks the new foreign keys as the cut-over will, while the target is open. A check that takes longer than the target may be closed
 * would fail in each attempt, and end all sessions each time. The first one may have read from the disk.
 */
async function requireShortChecks(run: Pick<OnlineRun, 'maxCutOverMs' | 'plan' | 'follower'>): Promise<void> {
  const { maxCutOverMs, plan } = run;
  let tookMs = Number.POSITIVE_INFINITY;
  for (let turn = 0; turn < CHECKS && tookMs > maxCutOverMs; turn++) {
    const startedAt = performance.now();
    await requireNoOrphans(run);
    tookMs = performance.now() - startedAt;
  }
  if (tookMs <= maxCutOverMs) return;
  const names = plan.newForeignKeys.map(({ name }) => name).join(', ');
  throw swapFailure(
    `the cut-over would check all rows for new foreign keys (${names}), which takes ${formatDuration(tookMs)} and more than --limit cut-over allows: ` +
      'add them NOT VALID and validate them after the swap, or raise the limit',
  );
}

const CHECKS = 2;

const ROWS = `
SELECT coalesce(sum(greatest(reltuples, 0)), 0)::float8 AS rows FROM pg_class WHERE oid = ANY ($1::oid[])`;

/** The number of rows to compare, by the planner's statistics. */
async function estimatedRows(target: Session, { tables }: OnlinePlan): Promise<number> {
  const [row] = await target.query<{ rows: number }>(ROWS, [tables.map(({ oid }) => oid)]);
  return row?.rows ?? 0;
}

const FILES = 'SELECT oid::int8 AS oid, relfilenode::text AS file FROM pg_class WHERE oid = ANY ($1::oid[])';

/** Names the tables that the command has rewritten: their statistics may be of other values. */
async function rewritten(target: Session, clone: Session, { tables }: OnlinePlan): Promise<string[]> {
  const filesOf = async (session: Session) => {
    const rows = await session.query<{ oid: string; file: string }>(FILES, [tables.map(({ oid }) => oid)]);
    return new Map(rows.map(({ oid, file }) => [Number(oid), file]));
  };
  const [before, after] = [await filesOf(target), await filesOf(clone)];
  // While it follows, the clone's tables have the names of the target's.
  return tables.filter(({ oid }) => before.get(oid) !== after.get(oid)).map(({ inTarget }) => inTarget);
}
